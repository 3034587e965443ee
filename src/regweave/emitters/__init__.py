"""Lane-level programs written down in the languages of devices.

>>> emit(program, "cuda", ["what it does"])         # one inline device function, or one kernel
>>> emit_trial(program, "opencl")                   # with a kernel that runs it on words in memory
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.emitters.cuda import CUDA
from regweave.emitters.hip import HIP
from regweave.emitters.language import Language
from regweave.emitters.opencl import OPENCL
from regweave.emitters.printer import Printer
from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.programs import Program

LANGUAGES: dict[str, Language] = {"cuda": CUDA, "hip": HIP, "opencl": OPENCL}
TARGETS = (*LANGUAGES, "x86")

__all__ = ["LANGUAGES", "TARGETS", "Language", "check_target", "emit", "emit_trial"]


def emit(program: Program, language: str, comments: Sequence[str] = ()) -> str:
    """The program as an inline device function of `language`, or as a kernel if it has no words of its own.

    For `x86` it is a function in assembly. `comments` stand above it, one line each. Raises InputError for an
    unknown language, UnsupportedError for a step that the language has no word for.
    """
    if language == "x86":
        from regweave.emitters.x86 import x86_listing

        return "".join(f"# {comment}\n" for comment in comments) + x86_listing(program).text
    return _printer(program, language).text(comments)


def emit_trial(program: Program, language: str, *, name: str = "trial", converted: bool = True) -> str:
    """The function and a kernel `name(x, y)` around it; unless `converted`, that kernel without it.

    Word i of thread t of the block is `x[i * threads + t]`, and likewise in y. Without its function the
    kernel stores the words as they are, for which there must be as many. Raises as `emit` does.
    """
    printer = _printer(program, language)
    return (printer.text() + "\n" if converted else "") + printer.trial(name, converted=converted)


def _printer(program: Program, language: str) -> Printer:
    if language == "x86":
        raise UnsupportedError(
            "x86 needs no kernel around a function",
            where=program.name,
            fix="emit gives one that works on memory",
        )
    return Printer(program, LANGUAGES[check_target(language)])


def check_target(language: str, targets: Sequence[str] = TARGETS) -> str:
    """`language`; InputError with the nearest ones if it is none of `targets`."""
    if isinstance(language, str) and language in targets:
        return language
    raise InputError(
        f"no code can be written for {language!r}",
        where="target",
        expected="one of " + ", ".join(targets),
        nearest=nearest_names(language, targets),
    )
