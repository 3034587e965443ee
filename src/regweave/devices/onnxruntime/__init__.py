"""Native operators inside an onnxruntime session: kernels of ours as nodes of domain "regweave"."""

from regweave.devices.onnxruntime.operator import Extra, NativeOperator, OutputDim, Pitch, Rest, Same
from regweave.devices.onnxruntime.registration import DOMAIN, unsupported_reason
from regweave.devices.onnxruntime.session import NativeSession
from regweave.devices.onnxruntime.sized import Prepared, SizedOperator

__all__ = [
    "DOMAIN",
    "Extra",
    "NativeOperator",
    "NativeSession",
    "OutputDim",
    "Pitch",
    "Prepared",
    "Rest",
    "Same",
    "SizedOperator",
    "unsupported_reason",
]
