"""From what a caller hands in to memory that a kernel can read, and back to what the caller works with.

NumPy arrays and DLPack tensors (torch, jax, ...) on the CPU are taken as they are, without a copy:

    array, wrap = take(x, "x")        array is an ndarray on x's memory
    wrap(result)                      a result of x's own kind: an ndarray, a torch tensor, ...

Kernels want float32 rows: neighbours 4 bytes apart, rows at any constant distance. What is laid out otherwise
(transposed, reversed, misaligned) is copied and correct; what is not float32 is an error that names the cast,
because a silent conversion would cost more than the product and hide where the time goes.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regweave.errors import InputError

Wrap = Callable[[np.ndarray], Any]

#: DLPack devices whose memory is the CPU's: its own, and pinned for CUDA.
_DLPACK_CPU = (1, 3)
_LINE = 64


def take(value: Any, where: str, *, halves: bool = False) -> tuple[np.ndarray, Wrap]:
    """`value`'s memory as a float32 ndarray, and the function that makes a result of the same kind.

    `halves`: float16 is taken as well, as float16. Errors: InputError for other element types, other devices,
    tensors that record gradients or a pending negation, and what is no array at all.
    """
    if isinstance(value, np.ndarray):
        # numpy.ma is loaded when it is named: 15 ms that plain arrays need not pay
        if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
            raise InputError(
                "a masked array", where=where, expected="plain values", fix="fill the masked ones"
            )
        _check_dtype(value.dtype, where, "numpy", halves)
        return np.asarray(value), _as_it_is  # of a subclass only the memory: np.matrix multiplies with *
    if not hasattr(value, "__dlpack__"):
        raise InputError(
            f"{type(value).__name__} is not an array",
            where=where,
            expected="a NumPy array or a DLPack tensor",
            fix="numpy.asarray(value, numpy.float32) makes one",
        )
    if getattr(value, "requires_grad", False):
        raise InputError(
            "the tensor records gradients, which a kernel cannot follow",
            where=where,
            fix="give tensor.detach()",
        )
    if getattr(value, "is_neg", bool)():
        raise InputError(  # torch hands out such memory as it lies, with all signs reversed
            "the tensor is a negation that has not been carried out",
            where=where,
            fix="give tensor.resolve_neg()",
        )
    try:
        on_cpu = value.__dlpack_device__()[0] in _DLPACK_CPU
        array = np.from_dlpack(value) if on_cpu else None
    except Exception as error:  # whatever foreign code raises
        kind = getattr(value, "dtype", type(value).__name__)
        raise InputError(
            f"{kind} cannot be shared: {error}", where=where, expected="a float32 tensor in the CPU's memory"
        ) from None
    if array is None:
        raise InputError(
            f"the tensor is on {getattr(value, 'device', 'another device')}",
            where=where,
            expected="a tensor in the CPU's memory",
            fix="give tensor.cpu()",
        )
    _check_dtype(array.dtype, where, type(value).__module__.partition(".")[0], halves)
    return array, _wrap_for(value)


def _check_dtype(dtype: np.dtype, where: str, library: str, halves: bool) -> None:
    if dtype.isnative and (dtype == np.float32 or (halves and dtype == np.float16)):
        return
    name = f"{dtype.name} in foreign byte order" if not dtype.isnative else dtype.name
    cast = ".to(torch.float32)" if library == "torch" else ".astype(numpy.float32)"
    expected = "float32 or float16" if halves else "float32"
    raise InputError(f"the elements are {name}", where=where, expected=expected, fix=f"convert with {cast}")


def _as_it_is(array: np.ndarray) -> np.ndarray:
    return array


def _wrap_for(value: Any) -> Wrap:
    """The `from_dlpack` of the library that `value` comes from; ndarrays if it has none."""
    namespace = getattr(value, "__array_namespace__", None)
    library = namespace() if namespace else sys.modules.get(type(value).__module__.partition(".")[0])
    return getattr(library, "from_dlpack", None) or _as_it_is


def as_rows(array: np.ndarray, width: int, where: str) -> np.ndarray:
    """`array` [..., width] as [M, width], elements 4 bytes apart; a copy only where the layout differs."""
    if array.ndim == 0 or array.shape[-1] != width:
        raise InputError(
            f"the shape is {list(array.shape)}", where=where, expected=f"[..., {width}]: {width} columns"
        )
    rows = array.reshape(math.prod(array.shape[:-1]), width)
    return rows if has_row_layout(rows) else np.require(rows, requirements=("C", "A"))


def has_row_layout(rows: np.ndarray) -> bool:
    """Whether a kernel can read or write [M, N] in place."""
    count, width = rows.shape
    return (
        bool(rows.flags.aligned)
        and (width == 1 or rows.strides[1] == rows.itemsize)
        and (count <= 1 or rows.strides[0] >= width * rows.itemsize)
    )


def row_pitch(rows: np.ndarray) -> int:
    """Bytes from row to row; NumPy leaves it open where there is only one."""
    return rows.strides[0] if rows.shape[0] > 1 else rows.shape[1] * rows.itemsize


def contiguous(array: np.ndarray, shape: Sequence[int], where: str) -> np.ndarray:
    """`array`, which must have this shape, C-contiguous and aligned; a copy only where it is not."""
    if array.shape != tuple(shape):
        raise InputError(f"the shape is {list(array.shape)}", where=where, expected=str(list(shape)))
    return np.require(array, requirements=("C", "A"))


def take_extras(extras: Any, count: int) -> list[np.ndarray]:
    """The memory of the extra inputs, which must be `count` arrays in a tuple or list. Errors: InputError."""
    if not isinstance(extras, (tuple, list)):
        raise InputError(
            f"extras is {type(extras).__name__}",
            where="extras",
            expected=f"a tuple of {count}",
            fix="write (array,) for a single one" if count else "this call takes none",
        )
    if len(extras) != count:
        raise InputError(f"{len(extras)} extra inputs", where="extras", expected=str(count))
    return [take(extra, f"extras[{index}]")[0] for index, extra in enumerate(extras)]


def _behind_head(array: np.ndarray) -> int:
    """The word behind an object's head: of an array where its elements are, in every NumPy so far."""
    return ctypes.c_size_t.from_address(id(array) + object.__basicsize__).value


def _as_documented(array: np.ndarray) -> int:
    return array.ctypes.data


_probe = np.zeros(3, np.uint8)[1:]
address_of: Callable[[np.ndarray], int] = (
    _behind_head if _behind_head(_probe) == _as_documented(_probe) else _as_documented
)
"""Address of an array's first element: `array.ctypes.data` in a seventh of the microsecond that it takes."""


def aligned_bytes(size: int) -> np.ndarray:
    """`size` uninitialised bytes that start at a cache line."""
    memory = np.empty(size + _LINE, np.uint8)
    start = -address_of(memory) % _LINE
    return memory[start : start + size]


def aligned_empty(shape: Sequence[int]) -> np.ndarray:
    """An uninitialised float32 array that starts at a cache line."""
    return aligned_bytes(4 * math.prod(shape)).view(np.float32).reshape(shape)


def writable(out: Any, shape: Sequence[int], dtype: type[np.floating] = np.float32) -> np.ndarray:
    """The memory of `out`, of any strides.

    Errors: InputError for a wrong shape or element type, for memory that must not be written, and for
    elements that share it.
    """
    array, _ = take(out, "out", halves=dtype is np.float16)
    if array.dtype != dtype:
        raise InputError(
            f"the elements are {array.dtype.name}",
            where="out",
            expected=f"{np.dtype(dtype).name}, as those of x",
        )
    if array.shape != tuple(shape):
        raise InputError(f"the shape is {list(array.shape)}", where="out", expected=str(list(shape)))
    if not array.flags.writeable and type(out).__module__.partition(".")[0] == "torch":
        array = out.numpy()  # older DLPack cannot say "writable", so NumPy assumes the worst
    if not array.flags.writeable:
        raise InputError("the memory is read-only", where="out", expected="an array that may be written")
    if _shares_elements(array):
        raise InputError("elements share memory", where="out", expected="memory of its own for each element")
    return array


def _shares_elements(array: np.ndarray) -> bool:
    """Whether two elements may lie in the same place, which no slice, transpose or diagonal does."""
    if array.flags.c_contiguous or array.size == 0:
        return False
    extent = array.itemsize
    for stride, count in sorted(
        (abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1
    ):
        if stride < extent:
            return True
        extent += stride * (count - 1)
    return False


def take_out(out: Any, shape: Sequence[int], inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, bool]:
    """The memory of `out`, which must have this shape, and whether a kernel may write straight into it.

    It may not where the layout is not rows or where it overlaps an input; then the result is made elsewhere
    and copied. Errors: InputError for a wrong shape or element type, and for memory that must not be written.
    """
    array = writable(out, shape)
    direct = array.flags.c_contiguous or (array.ndim == 2 and has_row_layout(array))
    overlap = any(np.may_share_memory(array, given) for given in inputs)
    return array, direct and bool(array.flags.aligned) and not overlap
