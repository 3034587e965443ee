"""The constants of a listing: read-only data behind the code, each content once.

pool.place(b"\\0\\0\\x80\\x3f", 4)   ->  ".Lname.data0"
"""

from __future__ import annotations

import struct


class Pool:
    """Contents by symbol, for the listing called `name`; no label has a dot, so none is a label."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._symbols: dict[tuple[bytes, int], str] = {}

    def place(self, content: bytes, align: int) -> str:
        """The symbol of `content` at a multiple of `align` bytes; the same one for the same content."""
        return self._symbols.setdefault((content, align), f".L{self._name}.data{len(self._symbols)}")

    def text(self) -> str:
        """The section as assembly text, most aligned first to lose no space; empty without constants."""
        if not self._symbols:
            return ""
        lines = [".section .rodata"]
        for (content, align), symbol in sorted(self._symbols.items(), key=lambda item: -item[0][1]):
            lines += [f".balign {align}", f"{symbol}:"]
            words, rest = divmod(len(content), 4)
            if words:
                values = struct.unpack(f"<{words}I", content[: 4 * words])
                lines.append(".long " + ",".join(map(str, values)))
            if rest:
                lines.append(".byte " + ",".join(map(str, content[-rest:])))
        return "\n".join(lines)
