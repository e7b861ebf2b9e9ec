"""Embeddings for TensorBoard's projector: files beside the event files, and the list of them.

<run>/projector_config.pbtxt
<run>/<step>/<tag>/{tensors.bytes, metadata.tsv, sprite.png}
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace_viz.images import to_batch
from headrace_viz.png import encode_png
from headrace_viz.storage import Folder
from headrace_viz.tensors import utf8

_CONFIG = "projector_config.pbtxt"
_MAX_SPRITE_PIXELS = 8192


def add_embedding(
    folder: Folder,
    vectors: Any,
    metadata: Sequence[Any] | None,
    images: Any,
    step: int,
    tag: str,
    header: Sequence[str] | None,
) -> None:
    """Write an embedding and list it, beside those that are listed already.

    Args:
      folder: of the run.
      vectors: real numbers `[points, size]`.
      metadata: a text, or with `header` a row of texts, for each point.
      images: a small picture for each point, `[points, channels, height, width]`.
      step: training step.
      tag: its name.
      header: names of the columns of `metadata`.
    Raises:
      ShapeError: the vectors are no matrix.
      InvalidArgumentError: metadata, header or pictures are not as many as the points or columns, or the pictures are
        too large for one sheet.
      OSError: the files cannot be written.
    """
    matrix = np.asarray(vectors)
    if matrix.ndim != 2 or not matrix.size:
        raise ShapeError(
            f"embedding '{tag}' is no matrix",
            expected="[points, size], not empty",
            got=f"shape {list(matrix.shape)}",
            hint="vectors.reshape(points, -1)",
        )
    matrix = matrix.astype("<f4")
    place = f"{step:05d}/{re.sub(r'[^A-Za-z0-9_.-]|^[.]+$', '_', tag)}"
    fields: dict[str, Any] = {
        "tensor_name": f"{tag}:{step:05d}",
        "tensor_path": f"{place}/tensors.bytes",
        "tensor_shape": list(matrix.shape),
    }
    files = {"tensors.bytes": matrix.tobytes()}
    if metadata is not None:
        files["metadata.tsv"] = utf8(_table(tag, metadata, header, len(matrix)))
        fields["metadata_path"] = f"{place}/metadata.tsv"
    if images is not None:
        files["sprite.png"], size = _sheet(tag, images, len(matrix))
        fields["sprite"] = {"image_path": f"{place}/sprite.png", "single_image_dim": size}
    for name, data in files.items():
        folder.put(f"{place}/{name}", data)
    listed = folder.read(_CONFIG).decode() if _CONFIG in folder.names() else ""
    folder.put(_CONFIG, (listed + _message("embeddings", fields)).encode())


def _table(tag: str, metadata: Sequence[Any], header: Sequence[str] | None, points: int) -> str:
    rows = [[entry] if header is None else list(entry) for entry in metadata]
    columns = 1 if header is None else len(header)
    if len(rows) != points or any(len(row) != columns for row in rows):
        raise InvalidArgumentError(
            f"metadata of embedding '{tag}' do not match its points",
            expected=f"{points} entries of {columns}",
            got=f"{len(rows)} entries of {sorted({len(row) for row in rows})}",
            hint="metadata_header names the columns where an entry is a row",
        )
    lines = rows if header is None else [list(header), *rows]
    return "".join("\t".join(re.sub(r"[\t\r\n]", " ", str(cell)) for cell in line) + "\n" for line in lines)


def _sheet(tag: str, images: Any, points: int) -> tuple[bytes, list[int]]:
    pictures = to_batch(images, "NCHW")
    count, height, width, channels = pictures.shape
    side = int(np.ceil(np.sqrt(count)))
    if count != points or side * max(height, width) > _MAX_SPRITE_PIXELS:
        raise InvalidArgumentError(
            f"pictures of embedding '{tag}' cannot be used",
            expected=f"{points} pictures that fit into a sheet of {_MAX_SPRITE_PIXELS} x {_MAX_SPRITE_PIXELS} pixels",
            got=f"{count} of {height} x {width}",
            hint="make the pictures smaller",
        )
    sheet = np.zeros([side * side, height, width, channels], np.uint8)
    sheet[:count] = pictures
    rows = sheet.reshape(side, side, height, width, channels).swapaxes(1, 2)
    return encode_png(rows.reshape(side * height, side * width, channels)), [width, height]


def _message(name: str, fields: dict[str, Any]) -> str:
    """Return a message in protobuf's text form."""
    lines = [f"{name} {{"]
    for field, value in fields.items():
        if isinstance(value, dict):
            lines.append(_message(field, value).rstrip("\n"))
            continue
        items = value if isinstance(value, list) else [value]
        lines += [f"{field}: {json.dumps(item)}" for item in items]
    return "\n".join([*lines, "}"]) + "\n"
