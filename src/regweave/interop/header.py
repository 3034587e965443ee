"""A plan as one self-contained header for CUDA C++, HIP C++ and OpenCL C.

    #if defined(__OPENCL_VERSION__)     // the function in OpenCL C
    #elif defined(__HIP__)              // in HIP C++
    #elif defined(__CUDACC__)           // in CUDA C++
    #endif

It includes nothing, and several such headers may be included side by side: what they share is guarded.
"""

from __future__ import annotations

import zlib

from regweave.emitters import LANGUAGES, emit
from regweave.errors import UnsupportedError
from regweave.programs import Program
from regweave.rearrangement import Plan

# when a compiler reads the text of a language
CONDITIONS = {
    "opencl": "defined(__OPENCL_VERSION__)",
    "hip": "defined(__HIP__)",
    "cuda": "defined(__CUDACC__) || defined(__CUDACC_RTC__)",
}


def header_text(plan: Plan, program: Program) -> str:
    """The header; `program` is the plan's."""
    guard = f"{program.name.upper()}_H"
    branches: list[str] = []
    for language, condition in CONDITIONS.items():
        branches += [f"#{'el' if branches else ''}if {condition}", "", _branch(plan, program, language)]
    lines = [
        f"// {plan.source.name} -> {plan.destination.name} on {plan.machine.name}, {plan.machine.title}:",
        f"// {plan.chosen.name}, {plan.cost}. Written and proved on every slot by regweave.",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        *branches,
        "#else",
        '#error "include this header in CUDA C++, HIP C++ or OpenCL C"',
        "#endif",
        "",
        f"#endif  // {guard}",
    ]
    return "\n".join(lines) + "\n"


def _branch(plan: Plan, program: Program, language: str) -> str:
    try:
        text = plan.emit(language)
    except UnsupportedError as error:
        return f'#error "{program.name} cannot be written here: {error.what}"\n'
    return guarded_helpers(text, language)


def guarded_helpers(text: str, language: str) -> str:
    """The same text with a guard around every helper function that other headers may bring too."""
    for helper in {*LANGUAGES[language].helpers.values()}:
        if helper and helper in text:
            name = f"REGWEAVE_HELPER_{zlib.crc32(helper.encode()):08X}"
            text = text.replace(helper, f"#ifndef {name}\n#define {name}\n{helper.rstrip()}\n#endif\n", 1)
    return text


def can_emit(program: Program, language: str) -> bool:
    """Whether the language has a word for every step."""
    try:
        emit(program, language)
    except UnsupportedError:
        return False
    return True
