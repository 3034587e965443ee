"""torch, eager and compiled: inference mode, threads set for the process.

Eager has two idiomatic forms, `F.linear` and `addmm(out=)`: both are tried and the faster one runs.
Compiled means Inductor with freezing (weights as constants, prepacked), with and without max-autotune, the
faster one; this needs a C++ compiler.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import warnings
from collections.abc import Sequence

import numpy as np
import torch

from regweave.benchmarks.cases import CascadeData, ProductData
from regweave.benchmarks.convolution_cases import ConvolutionData
from regweave.benchmarks.interleave import best_seconds
from regweave.benchmarks.peers import MissingPeerError, Peer, Runner

MODES = ("default", "max-autotune-no-cudagraphs")


class TorchPeer(Peer):
    """torch, eager."""

    def cascade(self, data: CascadeData, threads: int) -> Runner:
        """The faster of `F.linear` with ReLU in place and `addmm` into buffers."""
        torch.set_num_threads(threads)
        x = torch.from_numpy(data.x)
        weights = [torch.from_numpy(weight) for weight in data.weights]
        transposed = [weight.t().contiguous() for weight in weights]
        biases = [torch.from_numpy(bias) for bias in data.biases]
        buffers = [torch.empty(len(data.x), weight.shape[1]) for weight in weights]

        def linear() -> np.ndarray:
            with torch.inference_mode():
                y = x
                for weight, bias in zip(transposed, biases, strict=True):
                    y = torch.nn.functional.linear(y, weight, bias).relu_()
                return y.numpy()

        def addmm() -> np.ndarray:
            with torch.inference_mode():
                y = x
                for weight, bias, out in zip(weights, biases, buffers, strict=True):
                    y = torch.addmm(bias, y, weight, out=out).relu_()
                return y.numpy()

        return _fastest((linear, addmm))

    def product(self, data: ProductData, threads: int) -> Runner:
        """`mm` into a buffer."""
        torch.set_num_threads(threads)
        a, b = torch.from_numpy(data.a), torch.from_numpy(data.b)
        out = torch.empty(a.shape[0], b.shape[1])

        def run() -> np.ndarray:
            with torch.inference_mode():
                return torch.mm(a, b, out=out).numpy()

        return run

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """`conv2d` of planes that lie one after the other."""
        return _convolution(data, threads, torch.contiguous_format)


class TorchChannelsLastPeer(Peer):
    """torch, eager, with channels beside each other in memory: its faster order for many convolutions."""

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """`conv2d` of data that is in this order already, and stays so."""
        return _convolution(data, threads, torch.channels_last)


class TorchCompilePeer(Peer):
    """torch.compile with freezing, with or without max-autotune."""

    def cascade(self, data: CascadeData, threads: int) -> Runner:
        """The cascade as a module with constant weights."""
        layers: list[torch.nn.Module] = []
        for weight, bias in zip(data.weights, data.biases, strict=True):
            linear = torch.nn.Linear(*weight.shape)
            linear.weight.data = torch.from_numpy(weight).t().contiguous()
            linear.bias.data = torch.from_numpy(bias)
            layers += [linear, torch.nn.ReLU()]
        return _compiled(torch.nn.Sequential(*layers), (data.x,), threads)

    def product(self, data: ProductData, threads: int) -> Runner:
        """One matrix product of two inputs."""

        class Product(torch.nn.Module):
            def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
                return a @ b

        return _compiled(Product(), (data.a, data.b), threads)


def _convolution(data: ConvolutionData, threads: int, order: torch.memory_format) -> Runner:
    torch.set_num_threads(threads)
    c = data.case.convolution
    x = torch.from_numpy(data.x).to(memory_format=order)
    weights = torch.from_numpy(data.weights).to(memory_format=order)
    top, left, bottom, right = c.pads
    # torch pads both ends alike; what one end has more is a copy of the image
    both = (min(top, bottom), min(left, right))
    uneven = [left - both[1], right - both[1], top - both[0], bottom - both[0]]
    settings = {"stride": c.strides, "padding": both, "dilation": c.dilations, "groups": c.groups}

    def run() -> np.ndarray:
        with torch.inference_mode():
            image = torch.nn.functional.pad(x, uneven) if any(uneven) else x
            return torch.conv2d(image, weights, **settings).numpy()

    return run


def _compiled(module: torch.nn.Module, arrays: Sequence[np.ndarray], threads: int) -> Runner:
    if not any(map(shutil.which, ("g++", "c++", "clang++"))):
        raise MissingPeerError("torch.compile needs a C++ compiler", fix="install g++")
    torch.set_num_threads(threads)
    inputs = [torch.from_numpy(array) for array in arrays]
    return _fastest([_compiled_runner(module.eval(), mode, inputs) for mode in MODES])


def _compiled_runner(module: torch.nn.Module, mode: str, inputs: Sequence[torch.Tensor]) -> Runner:
    import torch._inductor.config as inductor

    # autotuning narrates its choices on stderr
    quiet = contextlib.redirect_stderr(io.StringIO())
    with quiet, warnings.catch_warnings(action="ignore"), inductor.patch(freezing=True):
        call = torch.compile(module, mode=mode, dynamic=False)
        with torch.no_grad():
            call(*inputs)

    def run() -> np.ndarray:
        with torch.no_grad():
            return call(*inputs).numpy()

    return run


def _fastest(runners: Sequence[Runner]) -> Runner:
    return min(runners, key=lambda run: best_seconds(run, 5))
