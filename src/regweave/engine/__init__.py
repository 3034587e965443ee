"""A whole model: find its cascades, decide, build, run inside onnxruntime, verify, report."""

__all__: list[str] = []
