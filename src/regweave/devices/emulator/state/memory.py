"""Global memory: the buffers that a kernel was given, at addresses of their own, with red zones between.

    memory = Memory()
    x = memory.place("x", array)              # its address
    memory.words(addresses, 4, cohort, ...)   # checked: inside one buffer, aligned, written before

Every byte knows whose it is and whether it was ever written. A buffer begins at a multiple of 256, as a
device's allocator gives it; nothing lies between the end of one and the beginning of the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.devices.emulator.state.cohort import Cohort

Array = Any
#: Where memory begins: no 32-bit number is an address.
BASE = 0x7F00_0000_0000
_ALIGNMENT, _RED = 256, 4096


class Memory:
    """The buffers of a launch. Made whole before anything runs: `place` each buffer, then `open`."""

    def __init__(self) -> None:
        self._buffers: list[tuple[str, int, np.ndarray, Array, bool]] = []
        self._end = _RED
        self.octets = np.zeros(0, np.uint8)

    def place(self, name: str, content: Array, *, written: Any = True, constant: bool = False) -> int:
        """Give a buffer its address. Bytes that are not `written` (one boolean, or one per byte) must be
        written before they are read; a `constant` buffer may not be written."""
        at = self._end
        raw = content.reshape(-1).view(np.uint8)
        self._buffers.append((name, at, raw, written, constant))
        self._end = -(-(at + raw.size) // _ALIGNMENT) * _ALIGNMENT + _RED
        return BASE + at

    def open(self) -> None:
        """Copy the buffers in."""
        self.octets = np.zeros(self._end, np.uint8)
        self.known = np.zeros(self._end, np.uint8)
        self.owner = np.zeros(self._end, np.int16)
        for number, (_, at, raw, written, _) in enumerate(self._buffers, 1):
            place = slice(at, at + raw.size)
            self.octets[place] = raw
            self.known[place] = written
            self.owner[place] = number
        self.views = {1: self.octets, 2: self.octets.view(np.uint16), 4: self.octets.view(np.uint32)}
        self.views_known = {1: self.known, 2: self.known.view(np.uint16), 4: self.known.view(np.uint32)}

    def take_back(self) -> dict[str, np.ndarray]:
        """Copy what was written back to the arrays; which bytes of each buffer hold something."""
        found = {}
        for name, at, raw, _, constant in self._buffers:
            if not constant:
                raw[:] = self.octets[at : at + raw.size]
                found[name] = self.known[at : at + raw.size] != 0
        return found

    def find(self, c: Cohort, addresses: Array, size: int, lanes: Array, *, unit: int, writes: bool) -> Array:
        """The places in `octets` of `size` bytes at each address (uint64, [waves, n]) where `lanes` is set.

        KernelError if one of them is misaligned to `unit` bytes, in no buffer, or in one that is not written.
        """
        places = (addresses - np.uint64(BASE)).astype(np.int64)
        inside = (places >= 0) & (places <= self._end - size)
        safe = np.where(inside & lanes, places, 0)
        owner = self.owner[safe]
        wrong = lanes & ~(inside & (owner != 0) & (owner == self.owner[safe + size - 1]))
        if wrong.any():
            self._outside(c, addresses, size, wrong, writes)
        if unit > 1:
            misaligned = lanes & ((safe & unit - 1) != 0)
            if misaligned.any():
                c.fault(
                    f"{_verb(writes)} {size} bytes at {_first(addresses, misaligned):#x}, no multiple of "
                    f"{unit}",
                    misaligned,
                )
        if writes:
            self._writable(c, owner, lanes)
        return safe

    def _writable(self, c: Cohort, owner: Array, lanes: Array) -> None:
        for number, (name, _, _, _, constant) in enumerate(self._buffers, 1):
            if constant and (lanes & (owner == number)).any():
                c.fault(f"writes to {name}, which is constant", lanes & (owner == number))

    def _outside(self, c: Cohort, addresses: Array, size: int, wrong: Array, writes: bool) -> None:
        address = _first(addresses, wrong)
        near = []
        for name, at, raw, _, _ in self._buffers:
            near.append(
                (
                    abs(address - BASE - at - raw.size // 2) - raw.size // 2,
                    name,
                    address - BASE - at,
                    raw.size,
                )
            )
        _, name, place, total = min(near) if near else (0, "nothing", 0, 0)
        c.fault(
            f"{_verb(writes)} {size} bytes at {address:#x}, outside of all buffers: byte {place} of {name!r}"
            f", which has {total}",
            wrong,
        )

    def load(self, c: Cohort, places: Array, size: int, lanes: Array) -> Array:
        """`size` (1, 2 or 4) bytes at places that `find` gave; KernelError if one was never written."""
        index = places >> size.bit_length() - 1
        known = self.views_known[size][index] == _KNOWN[size]
        missing = lanes & ~known
        if missing.any():
            place = int(places[tuple(np.argwhere(missing)[0])])
            name, at = next((n, at) for n, at, raw, _, _ in self._buffers if at <= place < at + raw.size)
            c.fault(f"reads byte {place - at} of {name!r}, which was never written", missing)
        return self.views[size][index].astype(np.uint32)

    def store(self, places: Array, size: int, lanes: Array, values: Array) -> None:
        """Write `size` bytes where `lanes` is set; of several lanes at one place the last one wins."""
        chosen = (places >> size.bit_length() - 1)[lanes]
        view = self.views[size]
        view[chosen] = np.broadcast_to(values, lanes.shape)[lanes].astype(view.dtype)
        self.views_known[size][chosen] = _KNOWN[size]


_KNOWN = {1: 1, 2: 0x0101, 4: 0x01010101}


def _verb(writes: bool) -> str:
    return "writes" if writes else "reads"


def _first(addresses: Array, lanes: Array) -> int:
    return int(np.broadcast_to(addresses, lanes.shape)[tuple(np.argwhere(lanes)[0])])
