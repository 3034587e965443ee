"""OpenVINO: f32 (its default may be bf16), latency mode, one stream, tensors that share our memory."""

from __future__ import annotations

import numpy as np
import openvino

from regweave.benchmarks.cases import CascadeData, ProductData
from regweave.benchmarks.graph_cases import cascade_model, product_model
from regweave.benchmarks.peers import Runner


class OpenvinoPeer:
    """OpenVINO's CPU plugin."""

    def cascade(self, data: CascadeData, threads: int) -> Runner:
        """One inference of the whole cascade."""
        return _runner(cascade_model(data), {"x": data.x}, data.expected.shape, threads)

    def product(self, data: ProductData, threads: int) -> Runner:
        """One inference; neither operand is a constant."""
        return _runner(product_model(data), {"a": data.a, "b": data.b}, data.expected.shape, threads)


def _runner(
    model: bytes, inputs: dict[str, np.ndarray], output: tuple[int, ...], threads: int
) -> Runner:
    core = openvino.Core()
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()
    out = np.empty(output, np.float32)
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    request.set_output_tensor(openvino.Tensor(out, shared_memory=True))

    def run() -> np.ndarray:
        request.infer()
        return out

    return run
