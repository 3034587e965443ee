"""What a chain moves, and when fusing it is predicted to pay."""

from __future__ import annotations

from pathlib import Path

import pytest

from regweave.cascades import Costs, estimate, host_costs, traffic
from regweave.cascades.costs import cache_bytes
from regweave.errors import InputError

COSTS = Costs(110e9, 1 << 20, 32 << 20, 150e9, 60e9, 30e9)


def test_bytes() -> None:
    moved = traffic((64, 64, 64, 64), 16384)
    matrix = 4 * 16384 * 64
    weights = 4 * 3 * 64 * 64
    assert moved.unfused == 6 * matrix + weights
    assert moved.fused == 2 * matrix + weights
    assert moved.saved == 2 * 2 * matrix


def test_extra_inputs_are_read_either_way() -> None:
    plain, residual = traffic((8, 16, 8), 100), traffic((8, 16, 8), 100, extra_widths=(8,))
    assert residual.fused - plain.fused == residual.unfused - plain.unfused == 4 * 100 * 8


def test_no_rows() -> None:
    assert traffic((8, 16, 8), 0).saved == 0
    assert estimate((8, 16, 8), 0, block=96, costs=COSTS).fused > 0


@pytest.mark.parametrize(
    ("widths", "rows", "pays"),
    [
        ((64, 64, 64, 64), 16384, True),
        ((64, 64, 64), 262144, True),
        ((64, 512, 64), 4096, True),
        ((384, 1536, 384), 128, False),
        ((25088, 4096, 4096, 1000), 1, False),
    ],
)
def test_decisions(widths: tuple[int, ...], rows: int, pays: bool) -> None:
    found = estimate(widths, rows, block=96, costs=COSTS)
    assert found.pays is pays
    assert found.reason.endswith(f"predicted {found.speedup:.2f}x")
    assert ("stay in the core's cache" in found.reason) is pays


def test_threads_share_the_work() -> None:
    one = estimate((64, 64, 64), 100_000, block=96, costs=COSTS)
    two = estimate((64, 64, 64), 100_000, block=96, threads=2, costs=COSTS)
    assert 0.4 < two.fused / one.fused < 0.6


@pytest.mark.parametrize(("widths", "rows"), [((), 1), ((8,), 1), ((8, 0), 1), ((8, 8), -1)])
def test_no_chain(widths: tuple[int, ...], rows: int) -> None:
    with pytest.raises(InputError, match="widths"):
        traffic(widths, rows)
    with pytest.raises(InputError, match="widths"):
        estimate(widths, rows, block=96)


def test_this_machine() -> None:
    costs = host_costs()
    assert costs.own_bytes >= 128 << 10
    assert costs.shared_bytes >= costs.own_bytes


def test_cache_sizes_that_the_system_tells(tmp_path: Path) -> None:
    assert cache_bytes(tmp_path) == (1 << 20, 32 << 20)
    for index, (level, kind, size) in enumerate(
        [(1, "Data", "32K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"), (3, "Unified", "16384K")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", str(level)), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert cache_bytes(tmp_path) == (2 << 20, 16 << 20)
