"""Whole models, as onnxruntime, OpenVINO and regweave run them, in turns, at equal threads.

    >>> compare_models(("PP-OCRv6_rec_small",), threads=1)["models"][0]["speedup"]

`speedup` is onnxruntime's median over the fused model's, from one interleaved run, and `openvino_speedup`
OpenVINO's, where it is installed and runs the model (`missing` tells why not). All are called in the same
way, from Python with the same arrays, and their results are compared before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.benchmarks.cases import relative_error
from regweave.benchmarks.interleave import check_counts, interleaved_times
from regweave.errors import VerificationError, unknown_name

if TYPE_CHECKING:
    from regweave.graphs import Model

Shapes = Mapping[str, tuple[int, ...]]

# sample model -> the shape of each input: one picture, or the stretch of speech that the model is made for
MODELS: Mapping[str, Shapes] = MappingProxyType(
    {
        "PP-OCRv6_rec_small": {"x": (1, 3, 48, 320)},
        "PP-OCRv6_det_small": {"x": (1, 3, 640, 640)},
        "ch_ppocr_mobile_v2.0_cls_mobile": {"x": (1, 3, 48, 192)},
        "plcmos_v2": {"degraded_audio": (1, 1, 900, 257), "rater_embed": (1, 64)},
        "dnsmos_sig_bak_ovr": {"input_1": (1, 144160)},
        "dnsmos_model_v8": {"input_1": (1, 900, 120)},
        "dnsmos_bak_ovr": {"input_1": (1, 901, 161)},
        "dnsmos_sig": {"input_1": (1, 901, 161)},
        "pdnsmos_sig_bak_ovr": {"input_1": (1, 144160)},
        "aecmos_1663829550": {"input": (1, 3, 900, 160), "h0": (4, 1, 64)},
        "aecmos_1663915512": {"input": (1, 3, 900, 160), "h0": (4, 1, 64)},
        "aecmos_1668423760": {"input": (1, 3, 900, 160), "h0": (4, 1, 96)},
    }
)
# of the largest element of an output; float32 through a whole network, in another order of summation
TOLERANCE = 1e-3


def compare_models(
    names: Sequence[str] = tuple(MODELS),
    *,
    threads: int = 1,
    rounds: int = 30,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Measure the sample models `names` and return the document that `regweave bench models --json` prints.

    Raises InputError for unknown names or counts below 1, VerificationError when an output differs.
    """
    check_counts(threads, rounds)
    for name in names:
        if name not in MODELS:
            raise unknown_name("model", name, MODELS)
    missing: dict[str, str] = {}
    models = [_measured(name, threads, rounds, say, missing) for name in names]
    return {"threads": threads, "rounds": rounds, "models": models, "missing": missing}


def sample_inputs(name: str) -> dict[str, np.ndarray]:
    """Inputs for a sample model from a fixed seed: values like those of a normalised picture or spectrum."""
    random = np.random.default_rng(len(name))
    shapes = MODELS[name].items()
    return {key: random.uniform(-1, 1, shape).astype(np.float32) for key, shape in shapes}


def free_dimensions(session: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The sizes that `inputs` give to the axes that the model leaves open, `{"x[3]": 320, ...}`."""
    return {
        f"{declared.name}[{axis}]": inputs[declared.name].shape[axis]
        for declared in session.get_inputs()
        for axis, size in enumerate(declared.shape)
        if not isinstance(size, int)
    }


def sample_graph(name: str) -> Model:
    """A sample model as it is read for the sizes of its `MODELS` inputs."""
    from regweave.graphs import read_model
    from regweave.graphs.samples import sample_model

    path = sample_model(name)
    return read_model(path, free_dimensions(_session(path, 1), sample_inputs(name)))


def _measured(
    name: str, threads: int, rounds: int, say: Callable[[str], None], missing: dict[str, str]
) -> dict[str, Any]:
    from regweave.engine import fuse
    from regweave.graphs.samples import sample_model

    say(f"{name}: fetching")
    path, inputs = sample_model(name), sample_inputs(name)
    session = _session(path, threads)
    say(f"{name}: fusing")
    fused = fuse(path, threads=threads, dims=free_dimensions(session, inputs))
    expected = session.run(None, inputs)
    errors = _errors(name, session, expected, fused.run(inputs))
    runners: dict[str, Callable[[], Any]] = {
        "baseline": lambda: session.run(None, inputs),
        "fused": lambda: fused.run(inputs),
    }
    outputs = [output.name for output in session.get_outputs()]
    other = _openvino(path, inputs, threads, dict(zip(outputs, expected, strict=True)))
    if isinstance(other, str):
        missing[f"openvino ({name})"] = other
    else:
        runners["openvino"] = other
    times = interleaved_times(
        runners, rounds=rounds, threads=threads, say=lambda words: say(f"{name}: {words}")
    )
    return {
        "name": name,
        "baseline_ms": times["baseline"],
        "fused_ms": times["fused"],
        "speedup": times["baseline"] / times["fused"],
        "openvino_ms": times.get("openvino"),
        "openvino_speedup": times["openvino"] / times["fused"] if "openvino" in times else None,
        **errors,
    }


def _openvino(
    path: Path, inputs: Mapping[str, np.ndarray], threads: int, expected: Mapping[str, np.ndarray]
) -> Callable[[], Any] | str:
    """The model as a call of OpenVINO's, or why there is none."""
    try:
        from regweave.benchmarks.openvino_peer import whole_model
    except ImportError:
        return "the package openvino is not installed"
    try:
        run = whole_model(path, inputs, threads)
        found = run()
    except RuntimeError as error:  # what all of its errors are
        return str(error).strip().splitlines()[-1]
    worst = max((relative_error(found[name], right) for name, right in expected.items()), default=0.0)
    return run if worst <= TOLERANCE else f"its output is off by {worst:.1e} of the largest element"


def _session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _errors(name: str, session: Any, expected: Sequence[np.ndarray], outputs: Any) -> dict[str, float]:
    absolute = relative = 0.0
    for output, right in zip(session.get_outputs(), expected, strict=True):
        got = outputs[output.name]
        error = relative_error(got, right)
        if not error <= TOLERANCE:  # also catches NaN
            raise VerificationError(
                f"output {output.name!r} of the fused model is off by {error:.1e} of its largest element",
                where=name,
                expected=f"at most {TOLERANCE:.0e}, against onnxruntime",
            )
        absolute = max(absolute, float(np.max(np.abs(got - right), initial=0.0)))
        relative = max(relative, error)
    return {"max_abs_error": absolute, "max_rel_error": relative}
