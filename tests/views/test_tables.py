"""The tables of `bench` and `doctor`."""

from rich.console import Console

from regweave.views import comparison_table, health_table, models_table

MACHINE = {"fma_peak_gflops": 117.4, "copy_gb_per_s": 14.25}


def drawn(table):
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    return console.export_text()


def test_comparison():
    case = {
        "name": "128x8-8",
        "peers": {"numpy": 2.0, "torch": 1.5},
        "ours_ms": 1.0,
        "ratio_best_peer": 1.5,
        "of_peak": 0.82,
        "of_bound": 0.9,
        "times": 1,
    }
    alone = {
        "name": "9x9",
        "peers": {},
        "ours_ms": 3.0,
        "ratio_best_peer": None,
        "of_peak": None,
        "of_bound": None,
        "times": 1,
    }
    text = drawn(comparison_table({"threads": 2, "rounds": 30, "machine": MACHINE, "cases": [case, alone]}))
    for words in ("128x8-8", "2.000", "1.50x", "82%", "2 threads", "117 GFLOP/s", "14.2 GB/s", "9x9"):
        assert words in text


def test_models():
    row = {"name": "rec", "baseline_ms": 20.0, "fused_ms": 18.0, "speedup": 1.111, "max_abs_error": 1e-6}
    row |= {"openvino_ms": None, "openvino_speedup": None}
    text = drawn(models_table({"threads": 1, "rounds": 30, "models": [row]}))
    for words in ("rec", "20.000", "18.000", "1.111x", "1.0e-06", "1 thread"):
        assert words in text


def test_health_says_what_to_do():
    document = {
        "regweave": "0.1.0",
        "python": "3.11",
        "system": "Linux",
        "processor": {"name": "CPU", "cores": 2, "machine": None, "vector_lanes": None, "caches": {}},
        "bounds": {"fma_peak_gflops": None, "copy_gb_per_s": 3.0},
        "capabilities": {"cascade": {"works": False, "detail": "[it] failed"}},
        "packages": {"numpy": "2.0"},
        "extras": {"bench": {"packages": {"torch": None}, "fix": "pip install 'regweave[bench]'"}},
        "cache": "/somewhere",
        "code": {"folder": None, "entries": 0, "bytes": 0},
    }
    text = drawn(health_table(document))
    for words in ("portable device", "[it] failed", "torch missing", "pip install 'regweave[bench]'"):
        assert words in text
    assert "not kept" in text
    processor = {**document["processor"], "machine": "avx512", "vector_lanes": 16, "caches": {"L1": 32768}}
    code = {"folder": "/somewhere/code", "entries": 3, "bytes": 2048}
    text = drawn(health_table({**document, "processor": processor, "code": code}))
    assert "/somewhere/code: 3 kernels, 2 KiB" in text
    assert "avx512, 16 lanes" in text
    assert "L1 32 KiB" in text
