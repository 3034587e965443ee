"""Native operators inside an onnxruntime session: kernels of ours as nodes of domain "regweave"."""

from regweave.devices.onnxruntime.blocks import MOST_IMAGES, OUTPUT_PLACE, RANK, WORK_PLACE
from regweave.devices.onnxruntime.counted import prepared_for
from regweave.devices.onnxruntime.operator import Extra, NativeOperator, Pitch
from regweave.devices.onnxruntime.registration import DOMAIN, unsupported_reason
from regweave.devices.onnxruntime.session import NativeSession
from regweave.devices.onnxruntime.sized import LINE, Place, Prepared, SizedOperator, Step

__all__ = [
    "DOMAIN",
    "LINE",
    "MOST_IMAGES",
    "OUTPUT_PLACE",
    "RANK",
    "WORK_PLACE",
    "Extra",
    "NativeOperator",
    "NativeSession",
    "Pitch",
    "Place",
    "Prepared",
    "SizedOperator",
    "Step",
    "prepared_for",
    "unsupported_reason",
]
