"""onnxruntime: all graph optimisations, constant weights (it prepacks them), tensors bound once."""

from __future__ import annotations

import numpy as np
import onnxruntime

from regweave.benchmarks.graph_cases import GraphPeer
from regweave.benchmarks.peers import Runner


class OnnxruntimePeer(GraphPeer):
    """onnxruntime's CPU provider."""

    def runner(
        self, model: bytes, inputs: dict[str, np.ndarray], output: tuple[int, ...], threads: int
    ) -> Runner:
        """A model as a call that writes its output to one buffer."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        out = np.empty(output, np.float32)
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        binding.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)

        def run() -> np.ndarray:
            session.run_with_iobinding(binding)
            return out

        # the binding holds addresses only: the arrays must live as long as the runner
        run.arrays = (out, *inputs.values())  # type: ignore[attr-defined]
        return run
