"""What a caller hands to `Fused.run`, checked against the model before anything runs.

    {"x": array}   by name       [array, ...]   in the model's order       array   the only input

NumPy arrays and DLPack tensors in the CPU's memory are taken as they are; whatever their strides, the result
is that of a contiguous copy. A wrong name, type, rank or fixed size is an error that says which and what was
expected, because onnxruntime's own words for some of these name neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from regweave.errors import InputError, nearest_names
from regweave.graphs import Model

_DLPACK_CPU = 1


@dataclass(frozen=True)
class Ports:
    """Names of inputs and outputs, and for each input its element type and its shape with symbols.

    A running model needs no more of the model that it was made from, whose weights would otherwise stay.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, np.dtype]
    shapes: Mapping[str, tuple[int | str, ...]]


def ports_of(model: Model) -> Ports:
    """The ports of a model."""
    return Ports(
        model.inputs,
        model.outputs,
        {
            name: np.dtype(helper.tensor_dtype_to_np_dtype(model.types[name]))
            for name in model.inputs
            if name in model.types
        },
        {name: model.symbols[name] for name in model.inputs if name in model.symbols},
    )


def checked_inputs(ports: Ports, given: Any) -> dict[str, np.ndarray]:
    """An array for every input of the model. Errors: InputError."""
    names = ports.inputs
    if not isinstance(given, Mapping):
        given = _in_order(names, given)
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InputError(
            f"the model has no input {unknown[0]!r}",
            where="inputs",
            expected=", ".join(names) or "no inputs",
            nearest=nearest_names(str(unknown[0]), names),
        )
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(f"no value for the inputs {', '.join(missing)}", where="inputs")
    return {name: _checked(ports, name, given[name]) for name in names}


def _in_order(names: Sequence[str], given: Any) -> dict[str, Any]:
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(values) != len(names):
        raise InputError(
            f"{len(values)} values for {len(names)} inputs",
            where="inputs",
            expected=", ".join(names) or "none",
        )
    return dict(zip(names, values, strict=True))


def _checked(ports: Ports, name: str, value: Any) -> np.ndarray:
    where = f"input '{name}'"
    array = _array(value, where)
    dtype = ports.types.get(name)
    if dtype is not None and dtype != np.dtype(object) and array.dtype != dtype:
        raise InputError(
            f"the elements are {array.dtype.name if array.dtype.isnative else array.dtype.str}",
            where=where,
            expected=dtype.name,
            fix=f"convert with .astype(numpy.{dtype.name})",
        )
    shape = ports.shapes.get(name)
    if shape is not None:
        fits = len(shape) == array.ndim and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(shape, array.shape, strict=True)
        )
        if not fits:
            wanted = ", ".join(str(dim) if isinstance(dim, int) else dim.rstrip("?") for dim in shape)
            raise InputError(f"the shape is {list(array.shape)}", where=where, expected=f"[{wanted}]")
    return np.require(array, requirements=("C", "A"))


def _array(value: Any, where: str) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise InputError("a masked array", where=where, fix="fill the masked values")
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            if value.__dlpack_device__()[0] != _DLPACK_CPU:
                raise InputError(
                    "the tensor is not in the CPU's memory", where=where, fix="give tensor.cpu()"
                )
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise InputError(f"the tensor cannot be shared: {error}", where=where) from None
    raise InputError(
        f"{type(value).__name__} is not an array", where=where, expected="a NumPy array or a DLPack tensor"
    )
