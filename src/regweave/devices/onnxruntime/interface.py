"""onnxruntime's C interface as far as custom operators need it: where each function sits and what it takes.

The interface is one table of function pointers that only ever grows at its end, so a place in it is a fact
for good (onnxruntime checks the same with static assertions). A function of version v exists in every release
since 1.v. We ask for version 18, which every supported release (1.20 and later) has; all places named here
lie below its end.

`OPERATOR_FIELDS` is the order of the callbacks in a custom operator's description.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

VERSION = 18
ENTRIES = 280
"""A lower bound of the table's length in that version; no place below may reach it."""

Pointer = ctypes.c_void_p
Size = ctypes.c_size_t
_Out = ctypes.POINTER(Pointer)

FUNCTIONS: dict[str, tuple[int, Any, tuple[Any, ...]]] = {
    # name: (place, result, arguments); a Pointer result of these is an OrtStatus*, null meaning success
    "CreateStatus": (0, Pointer, (ctypes.c_int, ctypes.c_char_p)),
    "CreateCustomOpDomain": (26, Pointer, (ctypes.c_char_p, _Out)),
    "CustomOpDomain_Add": (27, Pointer, (Pointer, Pointer)),
    "AddCustomOpDomain": (28, Pointer, (Pointer, Pointer)),
    "GetErrorMessage": (2, ctypes.c_char_p, (Pointer,)),
    "GetTensorMutableData": (51, Pointer, (Pointer, _Out)),
    "GetDimensionsCount": (61, Pointer, (Pointer, ctypes.POINTER(Size))),
    "GetDimensions": (62, Pointer, (Pointer, Pointer, Size)),
    "CreateCpuMemoryInfo": (69, Pointer, (ctypes.c_int, ctypes.c_int, _Out)),
    "GetTensorShapeElementCount": (64, Pointer, (Pointer, ctypes.POINTER(Size))),
    "GetTensorTypeAndShape": (65, Pointer, (Pointer, _Out)),
    "KernelContext_GetInput": (90, Pointer, (Pointer, Size, _Out)),
    "KernelContext_GetOutput": (91, Pointer, (Pointer, Size, Pointer, Size, _Out)),
    "ReleaseStatus": (93, None, (Pointer,)),
    "ReleaseTensorTypeAndShapeInfo": (99, None, (Pointer,)),
    "ReleaseCustomOpDomain": (101, None, (Pointer,)),
    "KernelContext_ParallelFor": (274, Pointer, (Pointer, Pointer, Size, Size, Pointer)),
    "KernelContext_GetScratchBuffer": (277, Pointer, (Pointer, Pointer, Size, _Out)),
}

OPERATOR_FIELDS = (
    "CreateKernel", "GetName", "GetExecutionProviderType", "GetInputType", "GetInputTypeCount",
    "GetOutputType",
    "GetOutputTypeCount", "KernelCompute", "KernelDestroy", "GetInputCharacteristic",
    "GetOutputCharacteristic",
    "GetInputMemoryType", "GetVariadicInputMinArity", "GetVariadicInputHomogeneity",
    "GetVariadicOutputMinArity",
    "GetVariadicOutputHomogeneity", "CreateKernelV2", "KernelComputeV2", "InferOutputShapeFn",
    "GetStartVersion",
    "GetEndVersion", "GetMayInplace", "ReleaseMayInplace", "GetAliasMap", "ReleaseAliasMap",
)  # fmt: skip


class OperatorTable(ctypes.Structure):
    """What onnxruntime calls a custom operator: a version and one callback per field."""

    _fields_ = (("version", ctypes.c_uint32), *((field, Pointer) for field in OPERATOR_FIELDS))


class Interface:
    """The interface of the onnxruntime that is loaded in this process, as Python callables.

    `base` is the address of the `OrtApiBase` that onnxruntime hands to a library; `address(name)` gives a
    function's raw address, for native callers.
    """

    def __init__(self, base: int) -> None:
        get_interface, get_version = (ctypes.cast(base, _Out)[place] for place in (0, 1))
        assert get_interface
        assert get_version
        self.release = ctypes.CFUNCTYPE(ctypes.c_char_p)(get_version)().decode()
        table = ctypes.CFUNCTYPE(Pointer, ctypes.c_uint32)(get_interface)(VERSION)
        self.table: int | None = table

    def address(self, name: str) -> int:
        """The address of function `name`."""
        assert self.table is not None
        found = ctypes.cast(self.table, _Out)[FUNCTIONS[name][0]]
        assert found, f"onnxruntime {self.release} has no {name}"
        return found

    def function(self, name: str) -> Callable[..., Any]:
        """Function `name` as a Python callable."""
        _, result, arguments = FUNCTIONS[name]
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(name))

    def check(self, status: int | None) -> None:
        """Raise RuntimeError with onnxruntime's own words unless `status` is null; frees the status."""
        if status:
            words = self.function("GetErrorMessage")(status).decode(errors="replace")
            self.function("ReleaseStatus")(status)
            raise RuntimeError(words)
