"""The demo: its picture reader, its decoding, and the whole thing on the real model."""

import importlib.util
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

DEMO = Path(__file__).parents[1] / "demo"
LINE = "Keep the data in registers: 2 x 3 = 6"


def demo_module(name):
    spec = importlib.util.spec_from_file_location(name, DEMO / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def png(picture, filters, kind=(8, 0, 0, 0, 0)):
    """The bytes of a grey PNG whose row i uses filters[i]."""
    height, width = picture.shape
    rows = []
    above = np.zeros(width + 1, int)
    for line, number in zip(picture.astype(int), filters, strict=True):
        left, corner = np.concatenate(([0], line[:-1])), above[:-1]
        up = above[1:]
        candidates = np.stack((left, up, corner))
        closest = np.argmin(np.abs(left + up - corner - candidates), axis=0)
        paeth = candidates[closest, np.arange(width)]
        guess = (np.zeros(width, int), left, up, (left + up) // 2, paeth)[number]
        rows.append(bytes([number]) + ((line - guess) & 255).astype(np.uint8).tobytes())
        above = np.concatenate(([0], line))

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    packed = zlib.compress(b"".join(rows))
    header = struct.pack(">IIBBBBB", width, height, *kind)
    data = chunk(b"IDAT", packed[:9]) + chunk(b"IDAT", packed[9:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


def test_every_filter_of_a_png_is_undone(tmp_path):
    picture = np.random.default_rng(1).integers(0, 256, (10, 17), np.uint8)
    path = tmp_path / "grey.png"
    path.write_bytes(png(picture, [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]))
    assert np.array_equal(demo_module("picture").read_grey_png(path), picture)


def test_other_files_are_refused(tmp_path):
    read = demo_module("picture").read_grey_png
    path = tmp_path / "other.png"
    path.write_bytes(b"GIF89a")
    with pytest.raises(ValueError, match="not a PNG"):
        read(path)
    path.write_bytes(png(np.zeros((1, 1), np.uint8), [0], kind=(8, 2, 0, 0, 0)))
    with pytest.raises(ValueError, match="8-bit grey"):
        read(path)


def test_the_demos_own_picture():
    picture = demo_module("picture").read_grey_png(DEMO / "line.png")
    assert picture.shape == (48, 528)
    assert picture.max() == 255
    assert picture.min() < 40


@pytest.mark.models
def test_the_demo_reads_the_line_and_shows_the_seam():
    run = subprocess.run([sys.executable, DEMO / "recognise.py"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert f"onnxruntime   {LINE}\n" in run.stdout
    assert f"fused         {LINE}   (the same)" in run.stdout
    assert "candidates fused" in run.stdout
    assert "lane 1  (2,1,2)  (2,3,3)  (0,1,0)  (0,3,1)" in run.stdout
    assert "__shfl_sync" in run.stdout
