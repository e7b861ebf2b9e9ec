"""What a SavedModel says of itself in `saved_model.pb`: read, and not believed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError

from headrace.errors import DataLossError, NotFoundError
from headrace_checkpoint.proto.saved_model_pb2 import AssetFileDef, MetaGraphDef, SavedModel, VariableDef

__all__ = [
    "ASSETS",
    "FILE",
    "INIT_COLLECTIONS",
    "SCHEMA_VERSION",
    "SERVE",
    "VARIABLES",
    "asset_path",
    "assets_of",
    "initializers_of",
    "read_saved_model",
    "trained_variables",
]

FILE = "saved_model.pb"
VARIABLES = "variables/variables"
ASSETS = "assets"
SERVE = "serve"
SCHEMA_VERSION = 1
INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")

_INIT = "__saved_model_init_op"
_ASSETS_COLLECTION = "saved_model_assets"
_OUTSIDE = frozenset("/\\\0")
"""No file's name has one of these, on any system."""


def read_saved_model(path: str | os.PathLike[str], tags: tuple[str, ...] = (SERVE,)) -> MetaGraphDef:
    """Read the description of a saved model, without building or restoring anything.

    Args:
      path: the folder with `saved_model.pb`.
      tags: which of its graphs.
    Raises:
      NotFoundError: there is no model, or no graph of these tags.
      DataLossError: the file is damaged.
    """
    file = Path(path) / FILE
    try:
        model = SavedModel.FromString(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            "there is no saved model here",
            expected=f"a folder with a {FILE}",
            got=str(path),
            hint="name the folder of one version, such as models/mnist/1",
        ) from None
    except DecodeError as error:
        raise DataLossError(
            "the saved model is damaged",
            where=str(file),
            expected="a SavedModel message",
            got=str(error),
            hint="export it again, or copy it again",
        ) from None
    if model.saved_model_schema_version > SCHEMA_VERSION or not model.meta_graphs:
        raise DataLossError(
            "not a saved model",
            where=str(file),
            expected=f"schema version {SCHEMA_VERSION} and at least one graph",
            got=f"schema version {model.saved_model_schema_version}, {len(model.meta_graphs)} graphs",
            hint="export it again, or copy it again",
        )
    for meta in model.meta_graphs:
        if set(meta.meta_info_def.tags) == set(tags):
            return meta
    known = "; ".join(",".join(meta.meta_info_def.tags) or "(none)" for meta in model.meta_graphs)
    raise NotFoundError(
        "the saved model has no graph of these tags",
        where=str(file),
        expected=f"one of: {known}",
        got=",".join(tags),
        hint="load_model(path, tags=(...,))",
    )


def trained_variables(meta: MetaGraphDef) -> dict[str, bool]:
    """Whether each variable is trained, by its name.

    TensorFlow 2 says it in the objects of the program, TensorFlow 1 in a collection.

    Raises:
      DataLossError: the description of one is damaged.
    """
    objects = [item.variable for item in meta.object_graph_def.nodes if item.variable.name]
    trained = {variable.name: variable.trainable for variable in objects}
    for collection, value in (("variables", False), ("trainable_variables", True)):
        listed = meta.collection_def[collection].bytes_list.value if collection in meta.collection_def else ()
        described = [_decoded(VariableDef, item, "a variable") for item in listed]
        trained |= {item.variable_name.partition(":")[0]: value for item in described}
    return trained


def initializers_of(meta: MetaGraphDef) -> list[str]:
    """The operations that fill tables and the like: under one name since TensorFlow 2, under others before."""
    if _INIT in meta.signature_def:
        return [info.name.partition(":")[0] for info in meta.signature_def[_INIT].outputs.values()]
    for collection in INIT_COLLECTIONS:
        if collection in meta.collection_def:
            return list(meta.collection_def[collection].node_list.value)
    return []


def assets_of(meta: MetaGraphDef) -> list[AssetFileDef]:
    """The files that came with a model: in a list of their own since TensorFlow 2, in a collection before.

    Raises:
      DataLossError: the description of one is damaged.
    """
    if meta.asset_file_def or _ASSETS_COLLECTION not in meta.collection_def:
        return list(meta.asset_file_def)
    listed = meta.collection_def[_ASSETS_COLLECTION].any_list.value
    return [_decoded(AssetFileDef, item.value, "an asset") for item in listed]


def asset_path(folder: Path, filename: str) -> Path:
    """The path of a file that came with a model.

    Raises:
      DataLossError: the name leads out of the model's folder.
    """
    if filename in ("", ".", "..") or not _OUTSIDE.isdisjoint(filename):  # a model must not lead out of its folder
        raise DataLossError(
            "a saved model names an asset outside its folder",
            where=str(folder),
            expected=f"a file in {ASSETS}, without a folder",
            got=filename,
            hint="do not trust where it came from",
        )
    return folder / ASSETS / filename


Described = TypeVar("Described", AssetFileDef, VariableDef)


def _decoded(kind: type[Described], encoded: bytes, what: str) -> Described:
    try:
        return kind.FromString(encoded)
    except DecodeError as error:
        raise DataLossError(
            f"the description of {what} of the saved model is damaged",
            expected=f"a message {kind.DESCRIPTOR.name}",
            got=str(error),
            hint="export it again, or copy it again",
        ) from None
