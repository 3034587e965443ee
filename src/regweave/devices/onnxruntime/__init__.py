"""Native operators inside an onnxruntime session: our kernels as nodes of domain "regweave", run by its threads."""

from regweave.devices.onnxruntime.operator import Extra, NativeOperator, Pitch
from regweave.devices.onnxruntime.registration import DOMAIN, Domain, register, unsupported_reason

__all__ = ["DOMAIN", "Domain", "Extra", "NativeOperator", "Pitch", "register", "unsupported_reason"]
