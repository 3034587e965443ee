"""`regweave conv --shape 1x3x1080x1920 --kernel 16x3x3x3`: how a convolution is planned for a device.

$ regweave conv --shape 1x3x1080x1920 --kernel 16x3x3x3 --padding 1
$ regweave conv --shape 1x3x224x224 --kernel 64x3x7x7 --stride 2 --machine bifrost-g76 --svg plan.svg
$ regweave conv --shape 1x256x56x56 --kernel 64x256x1x1 --order nhwc
$ regweave conv --shape 1x8x512x512 --kernel 8x8x3x3 --machine valhall --outputs 4x2x4
$ regweave conv --shape 1x8x512x512 --kernel 8x8x3x3 --machine opencl-cpu --emit opencl > conv.cl
$ regweave conv --shape 1x8x512x512 --kernel 8x8x3x3 --machine bifrost-g76 --emit host > conv.c
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Literal

from regweave.cli.names import DeviceName
from regweave.cli.output import print_document, talk_console
from regweave.errors import InputError
from regweave.files import write_file


def conv_command(
    *,
    shape: str,
    kernel: str,
    stride: str = "1",
    padding: str = "0",
    dilation: str = "1",
    groups: int = 1,
    dtype: str = "f32",
    machine: DeviceName = "cpu",
    order: Literal["nchw", "nhwc"] = "nchw",
    form: str | None = None,
    outputs: str | None = None,
    emit: str | None = None,
    svg: Path | None = None,
    json: bool = False,
) -> None:
    """Plan a convolution: form of the rows, threads, outputs per thread, registers, predicted time.

    Parameters
    ----------
    shape:
        BATCHxCHANNELSxHEIGHTxWIDTH of the image (without the height: signals).
    kernel:
        FILTERSxCHANNELSxHEIGHTxWIDTH of the weights; channels are those of a group.
    stride:
        One number, or DOWNxACROSS.
    padding:
        One number, DOWNxACROSS, TOPxLEFTxBOTTOMxRIGHT, or valid, same_upper, same_lower.
    dilation:
        One number, or DOWNxACROSS.
    groups:
        Groups of channels that share nothing.
    dtype:
        f32, or f16: stored so, and summed up in f32.
    machine:
        cpu, opencl-cpu, bifrost-g76, adreno-630, sm_80, gfx90a, ...; a wrong name lists the nearest.
    order:
        nchw: planes of channels. nhwc: the channels of a pixel lie side by side in memory, on a cpu;
        --shape and --kernel are written as ever.
    form:
        Insist on how rows are rearranged: none, polyphase, unrolled or, on a cpu, transformed.
    outputs:
        Insist on the outputs of a thread, ALONGxDOWNxFILTERS.
    emit:
        Print the kernels as opencl, hip or cuda instead, or as a program in C (host) that launches those in
        OpenCL C, tests and times them.
    svg:
        Draw image, threads and overlap into this file.
    json:
        Print one JSON document on stdout.
    """
    from regweave.convolution import plan_conv

    if emit is not None and json:
        raise InputError(
            "--emit and --json both want stdout", where="the command line", expected="one of them"
        )
    pads = padding if padding[:1].isalpha() else _one_or_more(padding, "--padding", (1, 2, 4))
    plan = plan_conv(
        _sizes(shape, "--shape"),
        _sizes(kernel, "--kernel"),
        _one_or_more(stride, "--stride", (1, 2)),
        pads,
        _one_or_more(dilation, "--dilation", (1, 2)),
        groups,
        dtype,
        machine,
        order=order,
        form=form,
        outputs_per_thread=None if outputs is None else _sizes(outputs, "--outputs"),
    )
    if svg is not None:
        from regweave.views import convolution_svg

        write_file(svg, convolution_svg(plan) + "\n")
        talk_console().print(f"drawn to {svg}", markup=False)
    if emit is not None:
        sys.stdout.write(plan.emit(emit))
    elif json:
        print_document(plan.to_document())
    else:
        from regweave.views import convolution_text

        sys.stdout.write(convolution_text(plan))


def _sizes(text: str, flag: str) -> tuple[int, ...]:
    words = text.lower().split("x")
    if not all(re.fullmatch("-?[0-9]{1,30}", word) for word in words):  # int() takes 1_0, too
        raise InputError(
            f"{text!r} is no list of sizes", where=flag, expected="whole numbers parted by x, as 1x3x224x224"
        )
    return tuple(map(int, words))


def _one_or_more(text: str, flag: str, counts: tuple[int, ...]) -> int | tuple[int, ...]:
    values = _sizes(text, flag)
    if len(values) not in counts:
        raise InputError(
            f"{text!r} has {len(values)} numbers",
            where=flag,
            expected=" or ".join(map(str, counts)),
        )
    return values[0] if len(values) == 1 else values
