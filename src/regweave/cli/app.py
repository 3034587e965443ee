"""The program `regweave`: its verbs, and one place where every outcome becomes an exit code.

    $ regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A --json | jq .strategy
    $ regweave --install-completion

Verbs are registered by name and imported when they are used (or when help needs their text), so that
`regweave --version` costs no import of the library. A verb returns its exit code, or None for 0.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    Token,
    UnusedCliTokensError,
    convert,
)

from regweave import __version__
from regweave.cli.completion import installer
from regweave.cli.failures import INTERRUPTED, OK, report_failure
from regweave.cli.output import PipeConsole, asked_width
from regweave.cli.process import Ended, drop_streams, ended_by_signals, is_stream_error, mend_streams
from regweave.cli.reflow import ReflowingFormatter
from regweave.errors import InputError, RegweaveError, nearest_names

HELP = "Keep data in registers: fuse cascades of matrix products, plan moves between registers, measure."
EPILOGUE = """Examples:

    regweave fuse model.onnx --threads 2
    regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A
    regweave layout mma.m16n8k8.tf32:C --where 9 2
    regweave machine sm_90a
    regweave asm kernel.rws --machine gfx906 -o kernel.co
    regweave image photo.jpg --op sepia -o old.jpg
    regweave filter photo.jpg --kernel gaussian5 -o soft.jpg
    regweave conv --shape 1x3x1080x1920 --kernel 16x3x3x3
    regweave bench cascade
    regweave doctor

Exit codes: 0 done, 1 a check failed, 2 bad input, 3 not supported, 130 interrupted, 143 terminated.
"""

# verb -> what it does, and examples for its help
VERBS = {
    "fuse": (
        "Fuse the cascades of an ONNX model, verify, report.",
        """Examples:

    regweave fuse model.onnx
    regweave fuse model.onnx --dim batch=1 --dim 'x[3]=320' --out fused/
    regweave fuse model.onnx --fuse MatMul_3,MatMul_5 --apart Conv_9 --json
    regweave fuse model.onnx --machine sm_80 --dtype tf32
""",
    ),
    "rearrange": (
        "Show how data moves between the registers of a warp from one layout to another.",
        """Examples:

    regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A
    regweave rearrange mma.m16n8k8.tf32:C mma.m16n8k8.tf32:A --strategy direct
    regweave rearrange mma.m16n8k16.f16:C mma.m16n8k16.f16:B --emit opencl
    regweave rearrange mine.csv@f16 mma.m16n8k16.f16:A --out seam/
""",
    ),
    "layout": (
        "Show which element lives in which register of which lane.",
        """Examples:

    regweave layout mma.m16n8k8.tf32:C
    regweave layout mma.m16n8k8.tf32:C --where 9 2
    regweave layout mma.m16n8k16.f16:A --slot 5 2
    regweave layout mma.m16n8k8.tf32:C --matrix --csv
    regweave layout v_mfma_f32_32x32x8_f16:D --svg d.svg
    regweave layout '((4,8),(2,2)):((32,1),(16,8))' --tile 16x8 --triton
""",
    ),
    "machine": (
        "List the machines, or show one: lanes, registers, exchanges, costs, matrix instructions.",
        """Examples:

    regweave machine
    regweave machine gfx942
    regweave machine gfx942 v_mfma_f32_32x32x8_f16
    regweave machine sm_90a --json
""",
    ),
    "asm": (
        "Assemble a GPU kernel that was written with named registers; show where each of them went.",
        """Examples:

    regweave asm scale.rws --machine gfx906
    regweave asm scale.rws --machine gfx906 -o scale.co --map scale.html
    regweave asm scale.rws --trace
    regweave asm gemm.py --machine gfx90a --json
""",
    ),
    "image": (
        "Multiply an image's pixels or patches by a matrix: colours, filter banks, your own.",
        """Examples:

    regweave image photo.jpg --op sepia -o old.jpg
    regweave image photo.png --op mine.txt -o out.png --json
    regweave image photo.jpg --op gabor -o responses.png
    regweave image photo.jpg --op dct8 --stride 8 -o 'plane-{}.png'
    regweave image small.png --op grey -o grey.png --machine gfx906 --precision i8
""",
    ),
    "conv": (
        "Plan a convolution for a device: how rows are rearranged, threads, registers, time.",
        """Examples:

    regweave conv --shape 1x3x1080x1920 --kernel 16x3x3x3 --padding 1
    regweave conv --shape 1x3x224x224 --kernel 64x3x7x7 --stride 2 --machine bifrost-g76 --svg plan.svg
    regweave conv --shape 1x8x512x512 --kernel 8x8x3x3 --machine opencl-cpu --emit opencl
    regweave conv --shape 1x3x224x224 --kernel 64x3x7x7 --json
""",
    ),
    "filter": (
        "Convolve an image with a small kernel: blur, edges, sharpening, your own.",
        """Examples:

    regweave filter photo.jpg --kernel gaussian5 -o soft.jpg
    regweave filter photo.png --kernel sobel -o edges.png --json
    regweave filter photo.tif --kernel box9 --stride 4 -o small.tif
    regweave filter photo.jpg --kernel mine.txt --border mirror -o out.png
""",
    ),
    "bench": (
        "Measure cascades, products, whole models and rearrangements side by side with other libraries.",
        """Examples:

    regweave bench cascade --threads 1
    regweave bench gemm --threads 2 --json
    regweave bench conv --threads 2
    regweave bench models --threads 2
    regweave bench rearrange --case 'f16 C -> B'
""",
    ),
    "doctor": (
        "Say what this machine and this installation can do.",
        """Examples:

    regweave doctor
    regweave doctor --json
""",
    ),
}


def build_app() -> App:
    """The program with its verbs."""
    app = App(
        name="regweave",
        help=HELP,
        help_epilogue=EPILOGUE,
        help_format="plaintext",
        help_formatter=ReflowingFormatter(),
        version=__version__,
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        console=PipeConsole(width=asked_width()),
        default_parameter=Parameter(negative="", show_default=_worth_showing, converter=_converted),
    )
    for verb, (summary, examples) in VERBS.items():
        app.command(f"regweave.cli.{verb}:{verb}_command", name=verb, help=summary, help_epilogue=examples)
    app.command(installer(app), name="--install-completion", help="Install completion for this shell.")
    return app


def _worth_showing(default: object) -> str | None:
    return None if default in (False, None, ()) else str(default)


def _converted(kind: Any, tokens: Sequence[Token]) -> Any:
    """As cyclopts converts, but that whole numbers are digits (it would round 1.5, and read 1_0 and 0x2)
    and that no file is called nothing (`"$unset"` would be this folder).
    """

    def single(one: Any, word: str) -> Any:
        if one is int and not re.fullmatch(r"[+-]?[0-9]+", word):
            raise CoercionError(msg=f"{word!r} is not a whole number")
        if one is Path and not word:
            raise CoercionError(msg="a file's name is empty")
        return convert(one, (word,))

    return convert(kind, tokens, single)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program on `arguments` (default: the command line's) and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with ended_by_signals():
            mend_streams()
            return _run(words)
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except Ended as end:
        _say("terminated")
        return end.code
    except BrokenPipeError:  # the reader has gone (`regweave ... | head`)
        return OK
    except OSError as error:
        if not is_stream_error(error):
            raise
        failure = InputError(f"cannot write the answer: {error.strerror}", where="stdout or stderr")
        return report_failure(failure, as_json=False)
    finally:
        drop_streams()


def _say(word: str) -> None:
    with suppress(OSError):
        print(word, file=sys.stderr)


def _run(words: list[str]) -> int:
    as_json = "--json" in words
    try:
        code = build_app()(words)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except CycloptsError as error:
        return report_failure(_parse_failure(error), as_json=as_json)
    except RegweaveError as error:
        return report_failure(error, as_json=as_json)
    except OSError as error:
        if error.filename is None:
            raise  # not about a file that a person named
        return report_failure(_file_failure(error), as_json=as_json)


def _file_failure(error: OSError) -> InputError:
    """What could not be opened or written; of a name that is not there, the ones that are."""
    place = Path(os.fsdecode(error.filename))
    beside = ()
    if isinstance(error, FileNotFoundError) and place.parent.is_dir():
        beside = nearest_names(place.name, os.listdir(place.parent))
    return InputError(error.strerror or str(error), where=str(place), nearest=beside)


def _parse_failure(error: CycloptsError) -> InputError:
    verb = " ".join(("regweave", *(error.command_chain or ())))
    what = str(error).strip().rstrip(".")
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        own = error.argument
        if not own.tokens and error.keyword is None and not error.tokens_so_far:
            what = f"{own.name} is missing"
    elif isinstance(error, UnusedCliTokensError):
        what = "more words than expected: " + " ".join(map(repr, error.unused_tokens or ()))
    return InputError(what, where="the command line", fix=f"see `{verb} --help`")
