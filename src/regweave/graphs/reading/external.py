"""Weights that lie in files of their own, beside the model: checked when it is read, mapped when used.

A model over 2 GiB cannot be one protobuf, so its big tensors name a file, an offset and a length. All are
checked up front, so that a missing or short file is one clear error and not a crash in the middle of a run;
their data is mapped into memory and not read until a piece asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from regweave.errors import ModelError
from regweave.graphs.attributes import subgraphs, words

WHOLE_BYTES = frozenset(
    onnx.TensorProto.DataType.Value(name)
    for name in words("FLOAT DOUBLE FLOAT16 BFLOAT16 INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 BOOL")
)


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the tensor's data lies in another file."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def all_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every constant tensor: initializers and tensor attributes, subgraphs included."""
    yield from graph.initializer
    for node in graph.node:
        for entry in node.attribute:
            if entry.type == onnx.AttributeProto.TENSOR:
                yield entry.t
        for inner in subgraphs(node):
            yield from all_tensors(inner)


def check_external(tensors: Iterable[onnx.TensorProto], folder: Path | None) -> None:
    """Every external tensor's file exists under `folder` and is long enough, or ModelError."""
    for tensor in tensors:
        if not is_external(tensor):
            continue
        path, offset, length = locate(tensor, folder)
        size = path.stat().st_size
        if offset + length > size:
            raise ModelError(
                f"external data of '{tensor.name}' ends at byte {offset + length} of a file of {size} bytes",
                where=str(path),
                fix="the file is truncated or belongs to another model: fetch it again",
            )


def locate(tensor: onnx.TensorProto, folder: Path | None) -> tuple[Path, int, int]:
    """The file, offset and length in bytes of an external tensor; ModelError if there is no such file."""
    if folder is None:
        raise ModelError(
            f"the data of '{tensor.name}' lies in another file, and a ModelProto names no folder",
            fix="give the path of the model file, or load the data into the ModelProto first",
        )
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder.resolve()):
        raise ModelError(
            f"external data of '{tensor.name}' is said to lie at '{location}'",
            expected=f"a file inside {folder}",
        )
    if not path.is_file():
        raise ModelError(
            f"external data file '{location}' of '{tensor.name}' is missing",
            where=str(folder),
            fix="put it beside the model file",
        )
    needed = _byte_count(tensor)
    offset, length = entries.get("offset", "0"), entries.get("length", str(needed))
    if not (offset.isdigit() and length.isdigit()) or int(length) < needed:
        raise ModelError(
            f"external data of '{tensor.name}' is at offset {offset} with {length} bytes",
            expected=f"{needed} bytes",
            where=str(path),
        )
    return path, int(offset), int(length)


def mapped(tensor: onnx.TensorProto, folder: Path | None) -> np.ndarray:
    """The data of an external tensor, mapped and not copied, in the tensor's shape."""
    path, offset, _ = locate(tensor, folder)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape)


def _byte_count(tensor: onnx.TensorProto) -> int:
    """Bytes that the shape needs; 0 (nothing is demanded) for types of less than a byte and for text."""
    if tensor.data_type not in WHOLE_BYTES:
        return 0
    itemsize = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return int(np.prod(tensor.dims, dtype=np.int64)) * itemsize
