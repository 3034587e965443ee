"""docs/report.md lists the fields of the documents that the verbs print."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from regweave.cli import main

PAGE = (Path(__file__).parents[2] / "docs/report.md").read_text("utf-8")
C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"
KERNEL = """kernel scale
workgroup 64
argument x pointer
scalar base x2
s_load_dwordx2 base, kernarg, argument(x)
"""


def fields_of(verb):
    """The words in code type of the sections whose headings name a verb."""
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    own = [text for text in sections if f"`regweave {verb} " in text.split("\n")[0]]
    assert own, verb
    return set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`[^`]+`", " ".join(own)))))


@pytest.mark.parametrize(
    "words",
    [
        ("layout", C),
        ("layout", "v_wmma_f32_16x16x16_f16:A"),
        ("layout", C, "--where", "9", "2"),
        ("layout", C, "--slot", "5", "2"),
        ("machine",),
        ("machine", "gfx942"),
        ("machine", "gfx942", "v_mfma_f32_32x32x8_f16"),
        ("rearrange", C, A),
        ("rearrange", C, A, "--strategy", "direct"),
        ("asm", "scale.rws", "--trace"),
        ("image", "photo.npy", "--op", "grey", "-o", "grey.npy"),
        ("filter", "photo.npy", "--kernel", "box3", "-o", "soft.npy"),
        ("conv", "--shape", "1x3x32x32", "--kernel", "4x3x3x3", "--machine", "bifrost-g76"),
        ("conv", "--shape", "1x3x32x32", "--kernel", "4x3x3x3"),
    ],
)
def test_every_field_stands_on_the_page(words, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    np.save("photo.npy", np.zeros((8, 9, 3), np.uint8))
    Path("scale.rws").write_text(KERNEL, "utf-8")
    assert main([*words, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [name for name in document if name not in fields_of(words[0])] == []
