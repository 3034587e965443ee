"""The doctor's findings as a table: what, the finding, and what to do where something is missing.

processor     AMD EPYC, 2 cores, avx512
extra bench   not installed: pip install 'regweave[bench]'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from regweave.views.bench_libraries import bounds_words

# works, does not, or was not tried for want of an extra
_STYLES = {True: "green", False: "red", None: "yellow"}


def health_table(document: Mapping[str, Any]) -> Table:
    """`document` (what `regweave doctor --json` prints) as a table."""
    table = Table(title=f"regweave {document['regweave']}", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for section in (_machine_rows(document), _capability_rows(document), _package_rows(document)):
        for name, words, style in section:
            table.add_row(Text(name), Text(words, style=style))
        table.add_section()
    return table


def _machine_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    processor = document["processor"]
    machine = processor["machine"]
    yield "system", f"{document['system']}, Python {document['python']}", ""
    yield "processor", f"{processor['name']}, {processor['cores']} cores", ""
    if machine is None:
        yield "vectors", "neither AVX-512 nor AVX2: the portable device computes, slowly", "yellow"
    else:
        yield "vectors", f"{machine}, {processor['vector_lanes']} lanes of float32", ""
    caches = ", ".join(f"{level} {size // 1024} KiB" for level, size in processor["caches"].items())
    yield "caches", caches, ""
    yield "bounds", bounds_words(document["bounds"]), ""


def _capability_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, finding in document["capabilities"].items():
        yield name, finding["detail"], _STYLES[finding["works"]]


def _package_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    yield "packages", _versions(document["packages"]), ""
    for extra, finding in document["extras"].items():
        fix = finding["fix"]
        words = _versions(finding["packages"]) + ("" if fix is None else f"\nto install: {fix}")
        yield f"extra {extra}", words, "" if fix is None else "yellow"
    yield "cache", document["cache"], ""
    code = document["code"]
    kept = f"{code['folder']}: {code['entries']} kernels, {code['bytes'] / 1024:.0f} KiB"
    yield "machine code", kept if code["folder"] else "not kept between processes", ""


def _versions(packages: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())
