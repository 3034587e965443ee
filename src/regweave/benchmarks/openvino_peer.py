"""OpenVINO: f32 (its default may be bf16), latency mode, one stream, tensors that share our memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import openvino

from regweave.benchmarks.graph_cases import GraphPeer
from regweave.benchmarks.peers import Runner


class OpenvinoPeer(GraphPeer):
    """OpenVINO's CPU plugin."""

    def runner(
        self, model: bytes, inputs: dict[str, np.ndarray], output: tuple[int, ...], threads: int
    ) -> Runner:
        """A model as a call that writes its output to one buffer."""
        request = _request(openvino.Core().read_model(model), inputs, threads)
        out = np.empty(output, np.float32)
        request.set_output_tensor(openvino.Tensor(out, shared_memory=True))

        def run() -> np.ndarray:
            request.infer()
            return out

        return run


def whole_model(
    path: Path, inputs: Mapping[str, np.ndarray], threads: int
) -> Callable[[], dict[str, np.ndarray]]:
    """A model from a file, fixed to the shapes of `inputs`, as a call that gives its outputs by name."""
    model = openvino.Core().read_model(str(path))
    model.reshape({name: list(array.shape) for name, array in inputs.items()})
    request = _request(model, inputs, threads)

    def run() -> dict[str, np.ndarray]:
        request.infer()
        return {port.get_any_name(): request.get_tensor(port).data for port in model.outputs}

    return run


def _request(model: openvino.Model, inputs: Mapping[str, np.ndarray], threads: int) -> openvino.InferRequest:
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    return request
