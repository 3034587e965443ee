"""A plan as a folder of files for somebody else's build.

    >>> [path.name for path in export_plan(plan, "seam/")]
    ['regweave_..._fold.h', '..._weights.h', '..._weights.py', '..._selftest.c', '..._selftest.cu',
    '..._selftest.cl',
     '....json']

Every file appears whole or not at all. The names are the generated function's, so that several plans can
share a folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from regweave.emitters import LANGUAGES
from regweave.errors import UnsupportedError
from regweave.files import folder_failure, path_of, write_file
from regweave.interop.header import header_text
from regweave.interop.probes import plan_probes
from regweave.interop.selftest import device_text, opencl_text, simulated_text
from regweave.interop.weights import c_text, numpy_text
from regweave.rearrangement import Plan

# whose weights a fold permutes
_NEXT = "The weights of the next product, permuted along k (their rows)."
_BEFORE = "The weights of the product before, permuted along their columns; bias, mask and residual alike."


def export_plan(plan: Plan, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Write the plan's header (x86: its assembly), self-tests, document, and a fold's permuted weights.

    Returns the paths. The folder is made if it is missing. Raises UnsupportedError if the plan is to
    refuse, InputError if the folder cannot be written to.
    """
    program = plan.chosen.program
    if program is None:
        raise UnsupportedError(f"there is nothing to export: {plan.chosen.reason}", where="strategy refuse")
    name = program.name
    words = f"{plan.source.name} -> {plan.destination.name} on {plan.machine.name}: {plan.chosen.name}"
    probes = plan_probes(plan, program)
    gpu = plan.language in LANGUAGES
    files: dict[str, str | None] = (
        {f"{name}.h": header_text(plan, program)} if gpu else {f"{name}.s": plan.emit()}
    )
    if plan.fold is not None:
        files[f"{name}_weights.h"] = c_text(name, plan.fold, words, _NEXT)
        files[f"{name}_weights.py"] = numpy_text(plan.fold, 0, words, _NEXT)
    if plan.producer_order is not None:
        before = name if plan.fold is None else f"{name}_before"
        files[f"{before}_weights.h"] = c_text(before, plan.producer_order, words, _BEFORE)
        files[f"{before}_weights.py"] = numpy_text(plan.producer_order, 1, words, _BEFORE)
    files[f"{name}_selftest.c"] = simulated_text(program, probes, words)
    if gpu:
        files[f"{name}_selftest.cu"] = device_text(program, probes, words, f"{name}.h")
        files[f"{name}_selftest.cl"] = opencl_text(program, words, f"{name}.h")
    files[f"{name}.json"] = json.dumps(plan.to_document(), indent=2) + "\n"
    root = path_of(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        written = []
        for file, text in files.items():
            if text is not None:
                write_file(root / file, text)
                written.append(root / file)
    except OSError as error:
        raise folder_failure(error, root) from error
    return tuple(written)
