"""Native operators inside an onnxruntime session: kernels of ours as nodes of domain "regweave"."""

from regweave.devices.onnxruntime.operator import Extra, NativeOperator, Pitch
from regweave.devices.onnxruntime.registration import DOMAIN, Domain, register, unsupported_reason

__all__ = ["DOMAIN", "Domain", "Extra", "NativeOperator", "Pitch", "register", "unsupported_reason"]
