"""Operators of ours inside an onnxruntime session.

    options = onnxruntime.SessionOptions()
    domain = register(options, [operator, ...])   # nodes "regweave" of these op types now run natively
    session = onnxruntime.InferenceSession(model, options)

How an operator gets in: a shared library that we write ourselves (`shared_object`) is loaded twice, by us and
by onnxruntime; it is one library, so the address that we store in its slot is where onnxruntime's call of
`RegisterCustomOps` lands. That is a ctypes callback, running on the thread that registers, inside `register`.

Lifetime: onnxruntime keeps plain pointers to our domain and blocks. A `Domain` owns both, and everything the
kernels read, and must outlive the session: `NativeSession` sees to that.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from regweave.devices.onnxruntime.blocks import OperatorBlock, ScratchSlot
from regweave.devices.onnxruntime.interface import VERSION, Interface, Pointer
from regweave.devices.onnxruntime.operator import NativeOperator, operator_block
from regweave.devices.onnxruntime.shared_object import shared_object, slot_name
from regweave.devices.onnxruntime.sized import Pool, SizedOperator
from regweave.errors import DeviceError, RegweaveError, UnsupportedError

if TYPE_CHECKING:
    import onnxruntime

DOMAIN = "regweave"
ENTRY = "RegisterCustomOps"
OLDEST_RELEASE = (1, 20)
_ARENA_ALLOCATOR, _DEFAULT_MEMORY = 1, 0
_FAIL = 1
_LINE = 64
SLOTS = 4
"""Calls at once, in several threads, that find their scratch ready; more work too, but slower."""


class Domain:
    """The operators of one session, and all memory that they read. Keep it until the session is gone."""

    def __init__(self, operators: Sequence[NativeOperator | SizedOperator]) -> None:
        self.operators = tuple(operators)
        self.blocks: list[OperatorBlock] = []
        self._scratch: list[Any] = []
        self._handle = Pointer()
        self._interface: Interface | None = None

    def attach(self, interface: Interface, options: int) -> None:
        """Create the blocks and add them to the session options at address `options`."""
        check, function = interface.check, interface.function
        self._interface = interface
        memory, slots, pool = _memory(interface), self._scratch_slots(), Pool()
        check(function("CreateCustomOpDomain")(DOMAIN.encode(), ctypes.byref(self._handle)))
        for operator in self.operators:
            block = operator_block(operator, interface, memory, slots, pool)
            self.blocks.append(block)
            check(function("CustomOpDomain_Add")(self._handle, ctypes.addressof(block)))
        check(function("AddCustomOpDomain")(options, self._handle))

    def _scratch_slots(self) -> ctypes.Array[ScratchSlot]:
        """Slots that hold what any of the operators needs, each on its own cache lines."""
        sizes = (
            operator.scratch * operator.parts
            for operator in self.operators
            if isinstance(operator, NativeOperator)  # the others share a pool
        )
        size = max(sizes, default=0)
        slots = (ScratchSlot * SLOTS)()
        if size:
            for slot in slots:
                memory = ctypes.create_string_buffer(size + _LINE)
                self._scratch.append(memory)
                slot.memory = -(-ctypes.addressof(memory) // _LINE) * _LINE
        return slots

    def __del__(self) -> None:
        if self._handle and self._interface is not None and not sys.is_finalizing():
            self._interface.function("ReleaseCustomOpDomain")(self._handle)


class _Pending(threading.local):
    """What the registering thread is about to attach, and the error that came of it."""

    domain: Domain | None = None
    error: BaseException | None = None


_pending = _Pending()
_lock = threading.Lock()
_memories: dict[int, int] = {}


def register(
    options: onnxruntime.SessionOptions, operators: Sequence[NativeOperator | SizedOperator]
) -> Domain:
    """Make `operators` known to sessions created with `options`.

    Errors: UnsupportedError where the machine or onnxruntime cannot take them; DeviceError with onnxruntime's
    words.
    """
    library = _library()
    domain = Domain(operators)
    _pending.domain, _pending.error = domain, None
    try:
        options.register_custom_ops_library(library)
    except Exception as error:
        cause = _pending.error or error
        if isinstance(cause, RegweaveError):
            raise cause from None
        raise DeviceError(f"onnxruntime did not take the native operators: {cause}") from cause
    finally:
        _pending.domain = _pending.error = None
    return domain


def unsupported_reason() -> str | None:
    """Why native operators cannot run inside onnxruntime here, or None where they can."""
    if not sys.platform.startswith("linux"):
        return f"native operators in onnxruntime need Linux, not {sys.platform}"
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"native operators in onnxruntime need x86-64, not {platform.machine()}"
    import onnxruntime

    release = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if release < OLDEST_RELEASE:
        wanted = ".".join(map(str, OLDEST_RELEASE))
        return f"native operators need onnxruntime {wanted} or later, not {onnxruntime.__version__}"
    return None


@ctypes.CFUNCTYPE(Pointer, Pointer, Pointer)
def _entry(options: int, base: int) -> int | None:
    """What onnxruntime calls as `RegisterCustomOps`: no exception may leave it."""
    interface = Interface(base)
    try:
        if interface.table is None:
            raise UnsupportedError(
                f"onnxruntime {interface.release} lacks version {VERSION} of its C interface",
                expected="onnxruntime 1.20 or later",
            )
        assert _pending.domain is not None
        _pending.domain.attach(interface, options)
        return None
    except BaseException as error:
        _pending.error = error
        if interface.table is None:
            return None
        return interface.function("CreateStatus")(_FAIL, str(error).encode())


def _memory(interface: Interface) -> int:
    """onnxruntime's name for ordinary memory; one per process, never freed."""
    with _lock:
        if interface.table not in _memories:
            found = Pointer()
            create = interface.function("CreateCpuMemoryInfo")
            interface.check(create(_ARENA_ALLOCATOR, _DEFAULT_MEMORY, ctypes.byref(found)))
            assert interface.table is not None
            assert found.value is not None
            _memories[interface.table] = found.value
        return _memories[interface.table]


@cache
def _library() -> str:
    """The path under which our library is loaded; its slot leads to `_entry`. Never unloaded."""
    reason = unsupported_reason()
    if reason is not None:
        raise UnsupportedError(reason, fix="run the model unfused")
    image = shared_object((ENTRY,), "libregweave_operators.so")
    path = _file(image)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise DeviceError(f"the operator library cannot be loaded: {error}") from error
    Pointer.in_dll(library, slot_name(ENTRY)).value = _address(_entry)
    return path


def _file(image: bytes) -> str:
    """A path from which `image` can be loaded: a file in memory, or on disk where there is none.

    The descriptor stays open. Should someone close it, the loader still finds the library by its path's
    spelling, because it is loaded already.
    """
    try:
        descriptor = os.memfd_create("regweave", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{descriptor}"
    except OSError:
        descriptor, path = tempfile.mkstemp(prefix="regweave-", suffix=".so")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(image)
    return path


def _address(callback: Any) -> int:
    address = ctypes.cast(callback, Pointer).value
    assert address is not None
    return address
