"""What pytest makes of the translator: AVX-512 kernels run where the processor has AVX2 only.

    pytest                                      # tests with AVX-512 as a parameter: one in ten, the rest is
                                                # `slow`
    pytest --translate avx512 tests/kernels     # all of them, and AVX-512 is what regweave takes unasked

Only the tests' process knows of it: `supports` says yes, and `devices.cpu` hands listings for AVX-512 to the
translator. A processor with AVX-512 runs everything itself.
"""

from __future__ import annotations

import functools
import sys
import zlib

import pytest

from regweave.devices.cpu import functions
from regweave.machines import x86
from regweave.machines.x86 import AVX2, AVX512, features
from translator.entering import can_enter
from translator.text import is_wide, translate

#: What a processor lacks that translated code does not need.
_WIDE = frozenset((*AVX512.features, "avx512vbmi")) - frozenset(AVX2.features)
#: Of tests with AVX-512 as a parameter, a run without `slow` takes one in so many, the same ones each time.
SAMPLED = 10


def is_needed() -> bool:
    """Whether this processor runs AVX-512 code only by translation, and can do that."""
    return features.supports(AVX2) and not features.supports(AVX512) and can_enter()


def install() -> None:
    """From now on `supports` counts what can be translated, and code is translated when it is loaded."""
    real = features.processor_features
    honest, load, load_listing = features.supports, functions._load, functions._load_listing

    @functools.wraps(honest)
    def supports(machine, present=None):
        if present is None and features.processor_features is real:  # a test may put another one there
            present = real() | _WIDE
        return honest(machine, present)

    def load_translated(text, names, key):
        return load(translate(text), names, None) if is_wide(text) else load(text, names, key)

    def load_listing_translated(listing):
        machine = listing.program.machine
        if honest(machine) or not _WIDE.intersection(machine.features):
            return load_listing(listing)
        functions._check_machine(machine, listing.name)
        return load(translate(listing.text), (listing.name,), None), None

    functions._load, functions._load_listing = load_translated, load_listing_translated
    for module in list(sys.modules.values()):  # who imported it already has it by its name
        if module is not features and getattr(module, "supports", None) is honest:
            setattr(module, "supports", supports)  # noqa: B010
    assert x86.supports is supports


def pytest_addoption(parser):
    parser.addoption(
        "--translate", choices=["avx512"], help="count AVX-512 as this processor's own where it has AVX2 only"
    )


def pytest_configure(config):
    if not is_needed():
        return
    if config.getoption("--translate"):
        real = features.processor_features

        @functools.wraps(real)
        def processor_features(*arguments):
            return real(*arguments) if arguments else real() | _WIDE

        features.processor_features = processor_features
    install()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if config.getoption("--translate") or not is_needed():
        return
    for item in items:
        if _asks_for_wide(item) and zlib.crc32(item.nodeid.encode()) % SAMPLED:
            item.add_marker("slow")


def _asks_for_wide(item):
    """Whether AVX-512 is among the parameters of a test in a file that asks what this processor supports."""
    if "machines" in item.path.parts or not {"supports", "chosen_machine"} & vars(item.module).keys():
        return False
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(str(getattr(value, "name", value)).startswith("avx512") for value in values)
