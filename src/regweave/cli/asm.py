"""`regweave asm FILE`: assemble a kernel that was written with named registers.

$ regweave asm scale.rws --machine gfx906 -o scale.co --map scale.html
$ regweave asm gemm.py --machine gfx942 --json | jq .inner_loop
"""

from __future__ import annotations

import runpy
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter
from cyclopts.completion import CompletionContext

from regweave.cli.output import print_document, talk_console
from regweave.cli.process import Ended
from regweave.errors import AssemblyError, InputError, RegweaveError
from regweave.files import read_file, write_bytes, write_file

if TYPE_CHECKING:
    from regweave.assembly.amd import FinishedKernel
    from regweave.machines.amd.assembly import GcnMachine

_MOST_BYTES = 1 << 24
_MAPS = (".html", ".svg", ".txt")


def _complete_targets(context: CompletionContext) -> Iterator[str]:
    from regweave.machines.amd.assembly import TARGETS

    return (name for name in TARGETS if name.startswith(context.incomplete))


_Target: TypeAlias = Annotated[str, Parameter(completer=_complete_targets)]


def asm_command(
    file: Path,
    /,
    *,
    machine: _Target = "gfx906",
    out: Annotated[Path | None, Parameter(name=("--out", "-o"))] = None,
    map: Path | None = None,
    trace: bool = False,
    json: bool = False,
) -> None:
    """Assign a kernel's registers, insert its waits, assemble it, and report.

    Parameters
    ----------
    file:
        A kernel as text (.rws), or a Python file whose function kernel(machine) returns one.
    machine:
        gfx906 (also for the Hygon DCU), gfx90a or gfx942.
    out:
        Write the loadable code object to this file.
    map:
        Draw the register map into this file: .html (with pressure, occupancy and mix), .svg or .txt.
    trace:
        Say for each operand which rule applied and what was registered.
    json:
        Print one JSON document on stdout.
    """
    from regweave.machines.amd.assembly import find_target
    from regweave.views.kernel_document import kernel_document
    from regweave.views.kernel_text import kernel_report, trace_report

    target = find_target(machine)
    if map is not None and map.suffix not in _MAPS:
        raise InputError(f"a register map in {map.name!r}", where="--map", expected=" or ".join(_MAPS))
    if map is not None and out is not None and map.resolve() == out.resolve():
        raise InputError(
            f"{out.name!r} is to be both the code object and its map", where="--map, -o", fix="name two files"
        )
    try:
        kernel, made_ms = _finished(file, target)
    except (AssemblyError, InputError) as error:  # here what is wrong is the file that was given
        place, where = _place(error, file), error.where or ""
        where = where if where.startswith(str(file)) else f"{place}, {where}".removesuffix(", ")
        raise InputError(
            error.what, where=where, expected=error.expected, nearest=error.nearest, fix=error.fix
        ) from error
    data, counts = _assembled(kernel, required=out is not None)
    document = kernel_document(
        kernel, counts=counts, object_bytes=None if data is None else len(data), trace=trace
    )
    document["made_ms"] = round(made_ms, 1)
    if out is not None and data is not None:
        write_bytes(out, data)
        talk_console().print(f"written to {out}", markup=False)
    if map is not None:
        write_file(map, _drawn(kernel, document, map.suffix) + "\n")
        talk_console().print(f"drawn to {map}", markup=False)
    if json:
        print_document(document)
        return
    print(trace_report(kernel) if trace else kernel_report(kernel, document))


def _drawn(kernel: FinishedKernel, document: dict[str, Any], kind: str) -> str:
    """The register map in the form that a file's name asks for."""
    if kind == ".html":
        from regweave.views.kernel_page import kernel_page

        return kernel_page(kernel, document)
    from regweave.views.kernel_map import kernel_svg, kernel_text_map

    return kernel_svg(kernel) if kind == ".svg" else kernel_text_map(kernel)


def _finished(file: Path, machine: GcnMachine) -> tuple[FinishedKernel, float]:
    """The kernel in a file, with its registers; and the milliseconds that it took, without imports."""
    from regweave.assembly.amd import FinishedKernel, Kernel
    from regweave.assembly.amd.text import parse_kernel

    started = time.perf_counter()
    text = read_file(file, _MOST_BYTES)  # of a Python file too: a better complaint than the interpreter's
    made = _run(file, machine) if file.suffix == ".py" else parse_kernel(text, machine)
    if isinstance(made, Kernel):
        made = made.finish()
    if not isinstance(made, FinishedKernel):
        raise InputError("no kernel", expected="a function kernel(machine) that returns a Kernel")
    return made, (time.perf_counter() - started) * 1000


def _run(file: Path, machine: GcnMachine) -> Any:
    """What kernel(machine) of a Python file returns; what the file prints goes to stderr. InputError with the
    file's line if it raises."""
    sys.path.insert(0, str(file.parent))
    try:
        with redirect_stdout(sys.stderr):
            make = runpy.run_path(str(file)).get("kernel")
            return make(machine) if callable(make) else None
    except (RegweaveError, KeyboardInterrupt, Ended):
        raise
    except BaseException as error:
        raise InputError(
            f"the file raised {type(error).__name__}: {error}", where=_place(error, file)
        ) from error
    finally:
        sys.path.remove(str(file.parent))


def _place(error: BaseException, file: Path) -> str:
    """The file, with the line of it that an error came from."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}:{error.lineno}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    return f"{file}:{lines[-1]}" if lines else str(file)


def _assembled(
    kernel: FinishedKernel, *, required: bool
) -> tuple[bytes | None, dict[str, int | None] | None]:
    """The object and its counts, which must be what the text declares; None without an assembler.

    With `required` that is an error.
    """
    from regweave.devices.hip import assemble, check_object, unsupported_reason

    if not required and unsupported_reason() is not None:
        return None, None
    data = assemble(kernel.text, kernel.machine.target_id)
    agreement = check_object(kernel, data)
    counts = agreement.counts
    return data, {
        "vgpr_file": counts.file,
        "sgpr_file": counts.scalar_file,
        "accum_offset": counts.offset,
        "vgpr": counts.vectors,
        "agpr": counts.accumulators,
        "sgpr": counts.scalars,
        "lds_bytes": counts.lds_bytes,
        "code_bytes": counts.code,
        "read_back": agreement.instructions,
    }
