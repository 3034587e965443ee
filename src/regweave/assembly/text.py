"""The text form: the same program as the builder's calls, written down.

    kernel squares(x, n, out)          ; reserved keywords: pinned to the calling convention's registers
    vector acc, v                      ; declared symbols: one variable each
    zero acc
    loop:
      load v, [x + 4*i + 64]
      fma acc, v, repeat [x]           ; one element, to all lanes
      mul v, v, 2.0                    ; a number with a point is a constant
      `vpermps %=0, %1, %2` v, acc, v  ; a template of your own
      dec n
      jump_nonzero loop
    store [out], acc
    return

`parse_text` returns a builder that has all of it, so more can be added before `finish`. A name is a declared
symbol, an argument, or (for jumps and calls) a label. Errors tell the line."""

from __future__ import annotations

import math
import re
from typing import Any

from regweave.assembly.builder import Builder
from regweave.assembly.reading import at_line, code_lines
from regweave.assembly.variables import Memory, Variable
from regweave.errors import AssemblyError
from regweave.machines import AssemblyMachine

_HEAD = re.compile(r"kernel\s+(\w+)\s*\(([^)]*)\)\Z")
_NAME = r"[^\W\d]\w*"
_DECLARATION = re.compile(r"(vector|general|mask)\s+(.+)\Z")
_SYMBOL = re.compile(rf"({_NAME})(?:\s*x\s*(\d+))?(?:\s*@\s*(\w+))?\Z")
_LABEL = re.compile(r"([.\w$]+)\s*:\Z")
_OPERATION = re.compile(r"(?:`([^`]+)`|(\w+))\s*(.*)\Z")
_MEMORY = re.compile(r"(repeat\s+)?\[([^\]]+)\]\Z")
_INDEX = re.compile(rf"(?:(\d+)\s*\*\s*({_NAME})|({_NAME})\s*\*\s*(\d+))\Z")
_MOST_DIGITS = 40
_NUMBER = re.compile(r"[+-]?(?:0x[0-9a-fA-F]+|\d+)\Z")
_FLOAT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?\Z")


def parse_text(text: str, machine: AssemblyMachine) -> Builder:
    """A builder with the program of `text`; AssemblyError with the line that cannot be understood."""
    builder: Builder | None = None
    for number, line in code_lines(text, comment=";"):
        with at_line(number, line):
            if builder is None:
                builder = _head(line, machine)
            else:
                _line(line, builder)
    if builder is None:
        raise AssemblyError("the text is empty", expected="kernel name(arguments) and operations")
    return builder


def _head(line: str, machine: AssemblyMachine) -> Builder:
    match = _HEAD.match(line)
    if match is None:
        raise AssemblyError("the first line does not name the kernel", expected="kernel name(argument, ...)")
    arguments = [argument.strip() for argument in match[2].split(",") if argument.strip()]
    for argument in arguments:
        if not argument.isidentifier():
            raise AssemblyError(f"{argument!r} cannot be an argument", expected="a name")
    return Builder(machine, name=match[1], arguments=arguments)


def _line(line: str, builder: Builder) -> None:
    declaration, label = _DECLARATION.match(line), _LABEL.match(line)
    if declaration is not None:
        for part in declaration[2].split(","):
            _declare(declaration[1], part.strip(), builder)
    elif label is not None:
        builder.label(label[1])
    else:
        match = _OPERATION.match(line)
        if match is None:
            raise AssemblyError("this is neither a declaration, a label nor an operation")
        template, name, rest = match.groups()
        parts = [part.strip() for part in rest.split(",")] if rest else []
        if template is not None:
            builder.emit_template(template, *(_operand(part, builder, label=False) for part in parts))
        else:
            label_taken = builder.machine.table[name].takes_label
            builder.emit(name, *(_operand(part, builder, label=label_taken) for part in parts))


def _declare(kind: str, symbol: str, builder: Builder) -> None:
    """`acc`, `tile x4` (consecutive registers) or `count @rcx` (pinned)."""
    match = _SYMBOL.match(symbol)
    if match is None:
        raise AssemblyError(f"{symbol!r} is not a symbol", expected="name, name x4 or name @register")
    name, count, pin = match.groups()
    if name in builder:
        raise AssemblyError(f"{name!r} is declared twice", fix="give each symbol a name of its own")
    if kind == "vector":
        builder.vector(name, count=_integer(count or "1"), pin=pin)
    elif count is not None:
        raise AssemblyError(f"{symbol!r}: only vectors come in tuples")
    elif kind == "general":
        builder.general(name, pin=pin)
    elif pin is not None:
        raise AssemblyError(f"{symbol!r}: masks cannot be pinned")
    else:
        builder.mask(name)


def _operand(text: str, builder: Builder, *, label: bool) -> Any:
    memory = _MEMORY.match(text)
    if memory is not None:
        return _memory(memory[2], builder, repeat=bool(memory[1]))
    if _NUMBER.match(text):
        return _integer(text)
    if _FLOAT.match(text):
        value = float(text)
        if math.isinf(value):
            raise AssemblyError(f"{text} is beyond every float")
        return builder.constant(value)
    if not text.isidentifier():
        raise AssemblyError(f"{text!r} is not an operand", expected="a name, [memory], a number or a label")
    return text if label else builder[text]


def _integer(text: str) -> int:
    """A decimal or 0x number; leading zeros mean nothing."""
    if len(text) > _MOST_DIGITS:
        raise AssemblyError(f"the number {text[:_MOST_DIGITS]}... has {len(text)} digits", expected="64 bits")
    return int(text, 16 if "x" in text else 10)


def _memory(text: str, builder: Builder, *, repeat: bool) -> Memory:
    """`x + 4*i + 64`: one base, at most one scaled index, numbers."""
    base: Variable | None = None
    index: Variable | None = None
    scale, offset = 1, 0
    for part in text.replace("-", "+-").split("+"):
        term = part.strip().replace("- ", "-")
        scaled = _INDEX.match(term)
        if scaled is not None and index is None:
            index, scale = builder[scaled[2] or scaled[3]], _integer(scaled[1] or scaled[4])
        elif _NUMBER.match(term):
            offset += _integer(term)
        elif term.isidentifier() and base is None:
            base = builder[term]
        elif term.isidentifier() and index is None:
            index = builder[term]
        else:
            raise AssemblyError(f"[{text}] is not an address", expected="[base + scale*index + offset]")
    if base is None:
        raise AssemblyError(f"[{text}] has no base", expected="[base + scale*index + offset]")
    return builder.at(base, offset, index=index, scale=scale, repeat=repeat)
