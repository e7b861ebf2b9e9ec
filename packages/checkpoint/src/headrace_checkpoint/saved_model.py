"""Saved models: a graph with named functions and the values of its variables, in TensorFlow's SavedModel layout.

    models/mnist/1/
      saved_model.pb                         graph, signatures, and which nodes restore the variables
      variables/variables.index              a TensorBundle
      variables/variables.data-00000-of-00001

`tf.saved_model.load`, TensorFlow Serving and `load_model` read it. Writing and loading stand together here, since a
loaded model saves itself again; what the file says of itself is read in `model_description`.
"""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike

import headrace as hr
from headrace.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    FeedError,
    GraphError,
    InvalidArgumentError,
    NotFoundError,
    known_names,
)
from headrace.graph.proto.types_pb2 import DataType
from headrace_checkpoint.checksum import crc32c
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.durable import DISK, Disk, staged_directory, write_file
from headrace_checkpoint.exported_graph import add_init_op, add_saver, exported_variables, prune
from headrace_checkpoint.model_description import (
    ASSETS,
    FILE,
    INIT_COLLECTIONS,
    SCHEMA_VERSION,
    SERVE,
    VARIABLES,
    asset_path,
    assets_of,
    initializers_of,
    read_saved_model,
    trained_variables,
)
from headrace_checkpoint.proto.saved_model_pb2 import MetaGraphDef, SavedModel, SignatureDef, TensorInfo
from headrace_checkpoint.tensor_bundle import TensorBundle, save_bundle

__all__ = [
    "DEFAULT_SIGNATURE",
    "LoadedModel",
    "LoadedSignature",
    "SignatureTensor",
    "load_model",
    "save_model",
]

DEFAULT_SIGNATURE = "serving_default"

_PREDICT = "tensorflow/serving/predict"


def save_model(
    path: str | os.PathLike[str],
    session: hr.Session,
    signatures: Mapping[str, hr.Signature],
    *,
    initializers: Sequence[hr.Operation] = (),
    assets: Mapping[hr.Tensor, str | os.PathLike[str]] | None = None,
    disk: Disk = DISK,
) -> Path:
    """Export functions of a session's graph, with the values their variables have now.

    Only what the signatures need is exported: no optimiser, no initial values, no device. The folder is there whole or
    not at all.

    Args:
      path: the folder, for a server `.../<model>/<version>`; must not exist.
      session: the graph and the values.
      signatures: the functions by name; clients that name none get `"serving_default"`.
      initializers: what a program that loads the model runs once, after the variables have their values: operations
        that fill tables.
      assets: files to take along, such as vocabularies, by the placeholder that is fed the file's path when the
        initializers run.
      disk: whose system calls to use.
    Returns:
      The folder.
    Raises:
      AlreadyExistsError: the folder is there already.
      InvalidArgumentError: there is no signature, or one has no output, or an input whose name is no Python name.
      GraphError: a signature's tensor is not in the session's graph, or an output needs a placeholder that is no input.
      NotFoundError: there is no such asset.
      OSError: the disk refused.

    Example:
      >>> import headrace as hr, headrace_checkpoint, tempfile
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     x = hr.placeholder(hr.float32, [None], name="x")
      ...     y = x * hr.Variable(2.0, name="factor")
      >>> path = tempfile.mkdtemp() + "/double/1"
      >>> with hr.Session(graph) as session:
      ...     signature = hr.Signature(inputs={"x": x}, outputs={"y": y})
      ...     _ = headrace_checkpoint.save_model(path, session, {"serving_default": signature})
      >>> with headrace_checkpoint.load_model(path) as model:
      ...     print(model.signatures["serving_default"](x=[1.0, 2.0])["y"])
      [2. 4.]
    """
    folder = Path(path)
    if folder.exists():
        raise AlreadyExistsError(
            "there is something of this name already",
            expected="a folder that does not exist yet",
            got=str(folder),
            hint="export under the next version number",
        )
    _check_signatures(session.graph, signatures)
    meta = MetaGraphDef()
    meta.meta_info_def.tags.append(SERVE)
    for name, signature in signatures.items():
        meta.signature_def[name].CopyFrom(_signature_def(signature))
    tensors = [t for item in signatures.values() for t in (*item.inputs.values(), *item.outputs.values())]
    roots = {tensor.op for tensor in (*tensors, *(assets or {}))} | set(initializers)
    graph_def = hr.to_graph_def(session.graph, roots)
    meta.graph_def.CopyFrom(prune(graph_def, sorted(op.name for op in roots)))
    if initializers:
        _add_initializer(meta, initializers)
    files = _add_assets(meta, assets or {})
    handles = {v.handle_in(session.graph).op.name: v.trainable for v in session.graph.variables}
    variables = exported_variables(meta.graph_def, handles)
    if variables:
        saver, collections = add_saver(meta.graph_def, variables)
        meta.saver_def.CopyFrom(saver)
        for name, collection in collections.items():
            meta.collection_def[name].CopyFrom(collection)
    values = session.read_variables([variable.name for variable in variables])
    model = SavedModel(saved_model_schema_version=SCHEMA_VERSION, meta_graphs=[meta])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with staged_directory(folder, disk) as staging:
        if variables:
            disk.make_directory(staging / "variables")
            save_bundle(staging / VARIABLES, values, disk=disk)
        if files:
            disk.make_directory(staging / ASSETS)
        for name, content in files.items():
            write_file(staging / ASSETS / name, [content], disk)
        write_file(staging / FILE, [model.SerializeToString(deterministic=True)], disk)
    return folder


def _add_initializer(meta: MetaGraphDef, initializers: Sequence[hr.Operation]) -> None:
    name = add_init_op(meta.graph_def, [operation.name for operation in initializers])
    meta.collection_def[INIT_COLLECTIONS[0]].node_list.value.append(name)


def _add_assets(meta: MetaGraphDef, assets: Mapping[hr.Tensor, str | os.PathLike[str]]) -> dict[str, bytes]:
    """Describe the assets; returns the content of each file, by a name of its own."""
    files: dict[str, bytes] = {}
    for tensor, path in assets.items():
        try:
            content = Path(path).read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            raise NotFoundError(
                "there is no such asset", expected=f"a file for '{tensor.name}'", got=str(path), hint="look at the path"
            ) from None
        stem = Path(path).name
        free = (stem, *(f"{number}_{stem}" for number in range(1, len(files) + 2)))
        name = next(each for each in free if files.get(each, content) == content)
        files[name] = content
        asset = meta.asset_file_def.add(filename=name)
        asset.tensor_info.CopyFrom(_tensor_info(tensor))
    return files


def _check_signatures(graph: hr.Graph, signatures: Mapping[str, hr.Signature]) -> None:
    given: object = signatures
    if not isinstance(given, Mapping) or not given:
        raise InvalidArgumentError(
            "a model needs at least one signature",
            expected=f"a dictionary with {DEFAULT_SIGNATURE!r} or others",
            got="none" if isinstance(given, Mapping) else f"a {type(given).__name__}",
            hint=f"signatures={{{DEFAULT_SIGNATURE!r}: hr.Signature(inputs=..., outputs=...)}}",
        )
    for name, signature in signatures.items():
        if not signature.outputs:
            raise InvalidArgumentError(
                f"signature {name!r} has no output",
                expected="at least one output",
                got="none",
                hint="hr.Signature(inputs=..., outputs={name: tensor})",
            )
        for alias in signature.inputs:
            if not alias.isidentifier() or keyword.iskeyword(alias):
                raise InvalidArgumentError(
                    f"an input of signature {name!r} has a name that callers cannot use",
                    expected="a name that a Python function's parameter may have",
                    got=repr(alias),
                    hint="TensorFlow turns inputs into parameters of a function",
                )
        for alias, tensor in (*signature.inputs.items(), *signature.outputs.items()):
            if tensor.graph is not graph:
                raise GraphError(
                    f"{alias!r} of signature {name!r} is not in the session's graph",
                    where=tensor.op.location,
                    expected=f"a tensor of {graph!r}",
                    got=f"a tensor of {tensor.graph!r}",
                    hint="save the session of the graph that the signature was made in",
                )
        _check_reach(name, signature)


def _check_reach(name: str, signature: hr.Signature) -> None:
    """Refuse outputs that nobody could compute: found here, not at the first request to a server."""
    given = set(signature.inputs.values())
    for alias, output in signature.outputs.items():
        waiting, seen = [] if output in given else [output.op], set[hr.Operation]()
        while waiting:
            op = waiting.pop()
            if op in seen:
                continue
            seen.add(op)
            if op.type == "Placeholder":
                raise GraphError(
                    f"output {alias!r} of signature {name!r} needs a placeholder that is no input",
                    where=op.location,
                    expected=f"{op.outputs[0].name} among the inputs",
                    got=f"inputs {', '.join(sorted(t.name for t in given)) or 'none'}",
                    hint="name it in inputs=..., or build the output again without it",
                )
            waiting += [tensor.op for tensor in op.inputs if tensor not in given]
            waiting += [control for control in op.control_inputs if given.isdisjoint(control.outputs)]


def _signature_def(signature: hr.Signature) -> SignatureDef:
    proto = SignatureDef(method_name=_PREDICT)
    for alias, tensor in signature.inputs.items():
        proto.inputs[alias].CopyFrom(_tensor_info(tensor))
    for alias, tensor in signature.outputs.items():
        proto.outputs[alias].CopyFrom(_tensor_info(tensor))
    return proto


def _tensor_info(tensor: hr.Tensor) -> TensorInfo:
    info = TensorInfo(name=tensor.name, dtype=cast(DataType, tensor.dtype.number))
    if tensor.shape.dims is None:
        info.tensor_shape.unknown_rank = True
    else:
        info.tensor_shape.SetInParent()  # a scalar is not an unknown shape
        for size in tensor.shape:
            info.tensor_shape.dim.add(size=-1 if size is None else size)
    return info


@dataclass(frozen=True, slots=True)
class SignatureTensor:
    """An input or output of a loaded signature.

    Attributes:
      name: the name of the graph's tensor.
      dtype: its element type.
      shape: its static shape.
    """

    name: str
    dtype: hr.DType
    shape: hr.Shape

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"


class LoadedSignature:
    """A function of a loaded model: arrays by alias in, arrays by alias out. Threads may call it at once.

    Attributes:
      name: its name.
      inputs: what it takes, by alias.
      outputs: what it gives, by alias.
    """

    def __init__(self, name: str, proto: SignatureDef, session: hr.Session) -> None:
        self.name = name
        graph = session.graph
        inputs = {alias: graph.tensor(info.name) for alias, info in sorted(proto.inputs.items())}
        outputs = {alias: graph.tensor(info.name) for alias, info in sorted(proto.outputs.items())}
        self.inputs = {alias: SignatureTensor(t.name, t.dtype, t.shape) for alias, t in inputs.items()}
        self.outputs = {alias: SignatureTensor(t.name, t.dtype, t.shape) for alias, t in outputs.items()}
        self._step = session.make_callable(outputs, feeds=list(inputs.values()))

    def __call__(self, **inputs: ArrayLike) -> dict[str, Array]:
        """Compute the outputs.

        Args:
          **inputs: one value for each input, by alias; an alias that is no Python name is given by `**{"a-b": value}`.
        Returns:
          One array for each output, by alias.
        Raises:
          FeedError: an input is missing, unknown, or of the wrong dtype or shape.
        """
        if inputs.keys() != self.inputs.keys():
            raise FeedError(
                f"the inputs of signature '{self.name}' are not those it takes",
                expected=", ".join(f"{alias}: {info}" for alias, info in self.inputs.items()) or "none",
                got=", ".join(sorted(inputs)) or "none",
                hint="give each of them by its name",
            )
        try:
            result: dict[str, Array] = self._step(*(inputs[alias] for alias in self.inputs))
        except FeedError as error:
            names = ", ".join(f"{alias}={info.name}" for alias, info in self.inputs.items())
            error.add_note(f"while calling signature '{self.name}', whose inputs are the graph's {names}")
            raise
        return result

    def __repr__(self) -> str:
        def spell(side: Mapping[str, SignatureTensor]) -> str:
            return ", ".join(f"{alias}: {info}" for alias, info in side.items())

        return f"<signature '{self.name}' ({spell(self.inputs)}) -> ({spell(self.outputs)})>"


class _Signatures(dict[str, LoadedSignature]):
    """The functions of a model by name; a name that it does not have is answered with those it has."""

    def __missing__(self, name: str) -> LoadedSignature:
        raise NotFoundError(
            f"the model has no signature {name!r}",
            expected=known_names(name, self),
            got=name,
            hint="headrace inspect shows them with their inputs and outputs",
        )


@dataclass(frozen=True, slots=True)
class _Start:
    """What makes a loaded model ready, once its variables have their values.

    Attributes:
      initializers: the operations to run.
      assets: the file to feed the path of, by the name of the tensor to feed.
    """

    initializers: Sequence[str]
    assets: Mapping[str, Path]


class LoadedModel:
    """A saved model, ready to be called. Close it to release its session.

    Attributes:
      path: where it came from.
      graph: its graph, restore operations included.
      session: holds the values of its variables.
      signatures: its functions, by name.
    """

    def __init__(
        self, path: Path, session: hr.Session, signatures: Mapping[str, LoadedSignature], start: _Start
    ) -> None:
        self.path = path
        self.session = session
        self._start = start
        self.signatures: Mapping[str, LoadedSignature] = _Signatures(signatures)

    @property
    def graph(self) -> hr.Graph:
        """The graph of the session."""
        return self.session.graph

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the model again, with the values its variables have now: after training it on, say.

        Args:
          path: the folder; must not exist.
        Returns:
          The folder.
        Raises:
          AlreadyExistsError: the folder is there already.
          OSError: the disk refused.
        """
        graph = self.graph
        signatures = {
            name: hr.Signature(
                inputs={alias: graph.tensor(info.name) for alias, info in signature.inputs.items()},
                outputs={alias: graph.tensor(info.name) for alias, info in signature.outputs.items()},
            )
            for name, signature in self.signatures.items()
        }
        return save_model(
            path,
            self.session,
            signatures,
            initializers=[graph.operation(name) for name in self._start.initializers],
            assets={graph.tensor(name): file for name, file in self._start.assets.items()},
        )

    def close(self) -> None:
        """Release the session and its values."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<model {self.path} with signatures {', '.join(self.signatures) or '(none)'}>"


def load_model(path: str | os.PathLike[str], *, tags: tuple[str, ...] = (SERVE,), mapped: bool = False) -> LoadedModel:
    """Load a saved model and restore its variables, every checksum verified.

    Those of TensorFlow 1 and 2 load too: their signatures, not the Python objects that they were made of. A model is a
    program, which may read and write files: load those that you trust.

    Args:
      path: the folder with `saved_model.pb`.
      tags: which of the model's graphs to load, if it has several.
      mapped: leave the values in their files, which are mapped: processes that load the same model share that memory.
        Nobody may change the files in place then; to remove them is no harm.
    Raises:
      NotFoundError: there is no model, no graph of these tags, or a file of its variables is missing.
      DataLossError: a file is damaged.
      UnknownOpError: when a signature runs an operation that no package here has registered.
    """
    folder = Path(path)
    meta = read_saved_model(folder, tags)
    graph = hr.import_graph_def(meta.graph_def, label=str(folder / "saved_model.pb"))
    _adopt_variables(graph, meta)
    session = hr.Session(graph, config=hr.config(soft_placement=True))  # devices are those of where it was made
    try:
        start = _Start(
            initializers_of(meta),
            {asset.tensor_info.name: asset_path(folder, asset.filename) for asset in assets_of(meta)},
        )
        _restore(folder, meta, session, start)
        if mapped and meta.saver_def.restore_op_name:
            _leave_in_files(TensorBundle(folder / VARIABLES), session)
        signatures = {
            name: LoadedSignature(name, proto, session)
            for name, proto in sorted(meta.signature_def.items())
            if not name.startswith("__")
        }
    except BaseException:
        session.close()
        raise
    return LoadedModel(folder, session, signatures, start)


_SUFFIX = re.compile(r"_\d+\Z")


def _adopt_variables(graph: hr.Graph, meta: MetaGraphDef) -> None:
    """Make variables of the graph's handles, so that the model can be trained on and saved again.

    Handles of variables of one name have numbers behind it.
    """
    trained = trained_variables(meta)
    for operation in graph.operations:
        if operation.type == "VarHandleOp":
            name = operation.name if operation.name in trained else _SUFFIX.sub("", operation.name)
            hr.Variable.of_handle(operation.outputs[0], trainable=trained.get(name, False))


def _leave_in_files(bundle: TensorBundle, session: hr.Session) -> None:
    """Let variables hold the mapped tensors of a bundle that have the very bytes of their values.

    They are known by those: names of variables and tensors differ, and what restores them is a program.
    """
    stored = {(entry.shape, entry.crc32c): name for name, entry in bundle.entries.items() if not entry.slices}
    for variable in session.graph.variables:
        try:
            (value,) = session.read_variables([variable.name], copy=False).values()
        except FailedPreconditionError:  # it is not saved, and has no value until a signature gives it one
            continue
        if value.dtype == object:
            continue
        name = stored.get((value.shape, crc32c(_bytes_of(value))))
        found = None if name is None else bundle.read(name, verify=False)
        if found is None or found.dtype != value.dtype or not found.flags.aligned:
            continue
        if np.array_equal(_bytes_of(found), _bytes_of(value)):
            session.write_variables({variable.name: found}, copy=False)


def _bytes_of(value: Array) -> Array:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _restore(folder: Path, meta: MetaGraphDef, session: hr.Session, start: _Start) -> None:
    """Run the operations by which the model restores its variables and makes itself ready."""
    graph, saver = session.graph, meta.saver_def
    if saver.restore_op_name:
        prefix = os.fsencode(folder / VARIABLES)
        session.run(graph.operation(saver.restore_op_name), feeds={graph.tensor(saver.filename_tensor_name): prefix})
    paths = {graph.tensor(name): os.fsencode(path) for name, path in start.assets.items()}
    for name in start.initializers:
        session.run(graph.operation(name), feeds=paths)
