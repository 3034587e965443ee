"""OpenVINO: f32 (its default may be bf16), latency mode, one stream, tensors that share our memory."""

from __future__ import annotations

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
