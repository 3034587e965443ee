"""The other libraries compute the same thing, and a missing one says so."""

import pytest

from regweave import UnsupportedError
from regweave.benchmarks import (
    PEER_CLASSES,
    CascadeCase,
    MissingPeerError,
    ProductCase,
    peers,
    same_size_case,
)
from regweave.benchmarks.cases import cascade_data, product_data, relative_error

# torch.compile builds C++ for many seconds: the slow run measures it
CONVOLVE = ("onnxruntime", "torch", "torch.channels_last", "openvino")
NO_PRODUCTS = ("torch.channels_last", "regweave.nchw")
ONE_PLANE = ("opencv", "opencv.separable")
FILTERS_ONLY = ("opencv.named", "pillow")
OTHERS = ("torch.compile", *NO_PRODUCTS, *ONE_PLANE, *FILTERS_ONLY)
QUICK = [name for name in PEER_CLASSES if name not in OTHERS]


def peer_or_skip(name):
    try:
        return peers.peer_named(name)
    except MissingPeerError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", QUICK)
def test_a_peer_computes_the_cascade(name):
    data = cascade_data(CascadeCase(37, (16, 48, 8)))
    run = peer_or_skip(name).cascade(data, 1)
    for _ in range(3):  # a runner is called many times
        assert relative_error(run(), data.expected) < 1e-6


@pytest.mark.parametrize("name", QUICK)
def test_a_peer_computes_the_product(name):
    data = product_data(ProductCase(65))
    run = peer_or_skip(name).product(data, 1)
    for _ in range(3):
        assert relative_error(run(), data.expected) < 1e-6


@pytest.mark.parametrize("name", CONVOLVE)
def test_a_peer_computes_the_convolution(name):
    data = same_size_case(3, 8, 3, 17, 20, stride=2).data()
    run = peer_or_skip(name).convolution(data, 1)
    for _ in range(3):
        assert relative_error(run(), data.expected) < 1e-6


@pytest.mark.parametrize("name", ONE_PLANE)
def test_a_peer_filters_one_plane(name):
    peer = peer_or_skip(name)
    data = same_size_case(1, 1, 5, 17, 20, separable=True).data()
    assert relative_error(peer.convolution(data, 1)(), data.expected) < 1e-6
    with pytest.raises(UnsupportedError, match="several planes"):
        peer.convolution(same_size_case(1, 2, 5, 17, 20, separable=True).data(), 1)
    if name == "opencv.separable":
        with pytest.raises(UnsupportedError, match="no column times a row"):
            peer.convolution(same_size_case(1, 1, 5, 17, 20).data(), 1)


def test_a_library_without_an_operation_says_so():
    with pytest.raises(UnsupportedError, match="NumpyPeer has no convolutions"):
        peer_or_skip("numpy").convolution(same_size_case(1, 1, 3, 4, 4).data(), 1)


@pytest.mark.slow
def test_compiled_torch_computes_both():
    peer = peer_or_skip("torch.compile")
    data, product = cascade_data(CascadeCase(37, (16, 48, 8))), product_data(ProductCase(65))
    assert relative_error(peer.cascade(data, 1)(), data.expected) < 1e-6
    assert relative_error(peer.product(product, 1)(), product.expected) < 1e-6


def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(PEER_CLASSES, "numpy", ("no_such_module", "NoPeer"))
    with pytest.raises(MissingPeerError, match=r"no_such_module is not installed.*regweave\[bench\]"):
        peers.peer_named("numpy")
