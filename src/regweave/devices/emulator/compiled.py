"""Kernels that a compiler wrote, in the assembly that it prints, as steps of the emulator.

    >>> text = compile_text(hip_source, "gfx942")                          # devices.hip
    >>> program = read_compiled(text, "copy", GFX942, {"x": "pointer", "n": "i32"})
    >>> run(program, grid=4, workgroup=64, arguments={"x": x, "n": 256})

The text says in its directives which registers hold what when the kernel starts, and where each argument
lies. It does not say the arguments' names and the workgroup's size, which are given beside it.

Facts: LLVM's AMDGPUUsage, "Initial Kernel Execution State" and "Code Object V5 Metadata".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from regweave.devices.emulator.program import Hidden, Program, read_steps
from regweave.devices.launch import SIZES
from regweave.errors import InputError, UnsupportedError
from regweave.machines.amd.assembly.targets import GcnMachine

#: What may stand in the first scalar registers, in this order, and how many registers it takes.
_USER = (
    ("private_segment_buffer", 4), ("dispatch_ptr", 2), ("queue_ptr", 2), ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2), ("flat_scratch_init", 2), ("private_segment_size", 1),
)  # fmt: skip


def read_compiled(text: str, name: str, machine: GcnMachine, arguments: Mapping[str, str]) -> Program:
    """Kernel `name` of a text that was compiled for `machine`, or of a finished kernel's. `arguments` are its
    arguments' names and kinds (`pointer`, `u32`, `f64`, ...) in order.

    InputError if the text has no such kernel or the arguments do not fit; UnsupportedError if the kernel
    needs memory for spilled registers.
    """
    body = re.search(rf"^{re.escape(name)}:.*?^\s*\.size\s", text, re.DOTALL | re.MULTILINE)
    head = re.search(
        rf"\.amdhsa_kernel {re.escape(name)}$.*?\.end_amdhsa_kernel", text, re.DOTALL | re.MULTILINE
    )
    notes = [entry for entry in _kernels(text) if f".name: {name}\n" in re.sub(r": +", ": ", entry)]
    if body is None or head is None or not notes:
        raise InputError(f"the assembly has no kernel {name!r}", expected="its code, descriptor and metadata")
    fields = {key: int(value) for key, value in re.findall(r"\.amdhsa_(\w+) (\d+)", head[0])}
    if fields.get("private_segment_fixed_size"):
        raise UnsupportedError(f"kernel {name!r} spills registers to memory, which is not emulated")
    lines = [line for line in body[0].splitlines()[1:] if not _directive(line)]
    places = _arguments(notes[0])
    own = [entry for entry in places if not entry[0].startswith("hidden_")]
    _check(name, own, arguments)
    return Program(
        name,
        machine,
        read_steps(lines, machine),
        fields.get("group_segment_fixed_size", 0),
        tuple(
            (given, kind, place) for (given, kind), (_, place, _) in zip(arguments.items(), own, strict=True)
        ),
        fields.get("kernarg_size", 0),
        None,
        fields.get("system_vgpr_workitem_id", 0),
        _starts(fields),
        fields.get("accum_offset", fields.get("next_free_vgpr", 0)),
        tuple(Hidden(*entry) for entry in places if entry[0].startswith("hidden_")),
    )


def _directive(line: str) -> bool:
    words = line.strip()
    return words.startswith(".") and not words.partition(";")[0].strip().endswith(":")


def _kernels(text: str) -> list[str]:
    """The metadata of each kernel."""
    notes = text.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    return re.split(r"^  - ", notes.partition("amdhsa.kernels:")[2], flags=re.MULTILINE)[1:]


def _arguments(notes: str) -> list[tuple[str, int, int]]:
    """(kind of value, place, size) of each argument."""
    found: list[dict[str, str]] = []
    for entry in re.split(r"^ +- ", notes.partition(".args:")[2], flags=re.MULTILINE)[1:]:
        keys = dict(re.findall(r"\.(\w+): +(\S+)", entry))
        if "value_kind" in keys:
            found.append(keys)
    return [(keys["value_kind"], int(keys["offset"]), int(keys["size"])) for keys in found]


def _check(name: str, own: list[tuple[str, int, int]], arguments: Mapping[str, str]) -> None:
    sizes = [size for _, _, size in own]
    pointers = [kind == "global_buffer" for kind, _, _ in own]
    given = [SIZES.get(kind, 0) for kind in arguments.values()]
    if sizes != given or pointers != [kind == "pointer" for kind in arguments.values()]:
        words = ", ".join(f"{kind} of {size} bytes" for kind, _, size in own)
        raise InputError(f"kernel {name!r} takes other arguments than {dict(arguments)}", expected=words)


def _starts(fields: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """What is known of the first scalar registers: (keyword, register)."""
    at, found = 0, []
    for word, count in _USER:
        if fields.get(f"user_sgpr_{word}"):
            if word == "kernarg_segment_ptr":
                found.append(("kernarg", at))
            at += count
    at = fields.get("user_sgpr_count", at)
    for axis in "xyz":
        if fields.get(f"system_sgpr_workgroup_id_{axis}"):
            found.append((f"group_{axis}", at))
            at += 1
    return tuple(found)
