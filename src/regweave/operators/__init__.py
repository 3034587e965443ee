"""What is computed, with float64 meaning and no hardware: element-wise operators, stages, chains, runs."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names
from regweave.operators.blocks import from_blocks, to_blocks
from regweave.operators.chain import Chain
from regweave.operators.elementwise import (
    AddScalar,
    ChannelAdd,
    ChannelMul,
    Clip,
    Elementwise,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    MulScalar,
    Relu,
    TensorAdd,
    TensorMul,
)
from regweave.operators.names import ACTIVATION_NAMES, activation
from regweave.operators.operands import Operand
from regweave.operators.smooth import Gelu, Sigmoid, Silu, Tanh
from regweave.operators.stage import Order, Signature, Stage

if TYPE_CHECKING:
    from regweave.operators.axis import Axis
    from regweave.operators.convolution import Convolution
    from regweave.operators.convolution_settings import convolution_of
    from regweave.operators.outputs import OutputDim, Rest, Same, followed
    from regweave.operators.planes import EnlargedTaps, Largest, PixelShuffle, PlaneWork, Repeat
    from regweave.operators.run import ElementwiseRun, RunSignature

__all__ = [
    "ACTIVATION_NAMES",
    "AddScalar",
    "Axis",
    "Chain",
    "ChannelAdd",
    "ChannelMul",
    "Clip",
    "Convolution",
    "Elementwise",
    "ElementwiseRun",
    "EnlargedTaps",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Largest",
    "LeakyRelu",
    "MulScalar",
    "Operand",
    "Order",
    "OutputDim",
    "PixelShuffle",
    "PlaneWork",
    "Relu",
    "Repeat",
    "Rest",
    "RunSignature",
    "Same",
    "Sigmoid",
    "Signature",
    "Silu",
    "Stage",
    "Tanh",
    "TensorAdd",
    "TensorMul",
    "activation",
    "convolution_of",
    "followed",
    "from_blocks",
    "to_blocks",
]

__getattr__ = lazy_names(
    __name__,
    axis=("Axis",),
    convolution=("Convolution",),
    convolution_settings=("convolution_of",),
    outputs=("OutputDim", "Rest", "Same", "followed"),
    planes=("EnlargedTaps", "Largest", "PixelShuffle", "PlaneWork", "Repeat"),
    run=("ElementwiseRun", "RunSignature"),
)
