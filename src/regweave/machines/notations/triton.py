"""Triton's register layouts, written as attributes of its IR: what they place where.

    >>> read_triton("#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [8, 4], warpsPerCTA = [2, 1], "
    ...             "order = [1, 0]}>", (16, 8)).element(33, 1)
    (8, 3)

A lane here is a thread of the block: lane 32 is the first of the second warp. An attribute says nothing
about sizes: the tile comes beside it, or from a tensor type (`tensor<16x16xf16, #ttg...>`), and without
either it is the smallest that the attribute fills. Element types come from the tensor type; otherwise bits
are moved (`b32`). The formulas are those that Triton 3.9 computes, compared with it attribute by attribute
in the tests.
"""

from __future__ import annotations

from collections.abc import Callable

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.layouts import Layout
from regweave.machines.notations.attributes import Attribute, is_vector, read_attribute
from regweave.machines.notations.spread import Spread
from regweave.machines.notations.triton_amd import amd_mfma, amd_wmma, mfma_operand, wmma_operand
from regweave.machines.notations.triton_nvidia import mma_operand, nvidia_mma

# how an attribute tells about several blocks; one block is all that fits here
CLUSTER_KEYS = ("CGALayout", "CTAsPerCGA", "CTASplitNum", "CTAOrder")

Spreader = Callable[[Attribute, "tuple[int, int] | None"], "tuple[Spread, tuple[int, int]]"]


def read_triton(text: str, tile: tuple[int, int] | None = None) -> Layout:
    """The layout of a pasted Triton attribute or tensor type, on `tile` where the text gives no sizes.

    Raises InputError naming the place in the text; UnsupportedError for layouts of memory, of several
    blocks, and of more or fewer than two dimensions.
    """
    tensor = read_attribute(text)
    attribute = tensor.attribute
    if tensor.shape is not None and len(tensor.shape) != 2:
        raise UnsupportedError(
            f"a tensor of {len(tensor.shape)} dimensions", expected="two: rows and columns"
        )
    if tensor.shape is not None and tile is not None and tensor.shape != tile:
        raise InputError(
            f"a tensor of {'x'.join(map(str, tensor.shape))}", where="tile", expected=f"{tile[0]}x{tile[1]}"
        )
    shape = tile if tensor.shape is None else (tensor.shape[0], tensor.shape[1])
    if shape is not None and any(size < 1 or size & (size - 1) for size in shape):
        raise InputError(
            f"a {shape[0]} x {shape[1]} tile",
            where="tile",
            expected="powers of two, as Triton's layouts have",
        )
    spread, order = spread_of(attribute, shape)
    if attribute.name != "linear":
        spread = spread.fit(shape or spread.sizes, order)
    axes = ("row", "column")
    if attribute.name == "dot_op":
        axes = ("m", "k") if attribute.get("opIdx", int) == 0 else ("k", "n")
    elif attribute.name.startswith(("nvidia_", "amd_")):
        axes = ("m", "n")
    return Layout.linear(
        f"#ttg.{attribute.name}",
        spread.sizes,
        tensor.dtype or "b32",
        lane=[*spread.lane, *spread.warp],
        item=list(spread.register),
        axes=axes,
    )


def spread_of(attribute: Attribute, shape: tuple[int, int] | None) -> tuple[Spread, tuple[int, int]]:
    """One unit of the attribute, and the order of the axes along which it is repeated."""
    readers: dict[str, Spreader] = {
        "linear": _linear,
        "blocked": _blocked,
        "nvidia_mma": nvidia_mma,
        "amd_mfma": amd_mfma,
        "amd_wmma": amd_wmma,
        "dot_op": _operand,
    }
    if attribute.name not in readers:
        memory = "shared" in attribute.name or "tensor_memory" in attribute.name
        raise UnsupportedError(
            f"#ttg.{attribute.name} {'lays out memory, not registers' if memory else 'is not read'}",
            where=attribute.place,
            expected=", ".join(f"#ttg.{name}" for name in readers),
            nearest=[f"#ttg.{name}" for name in nearest_names(attribute.name, readers)],
        )
    _check_one_block(attribute)
    return readers[attribute.name](attribute, shape)


def _check_one_block(attribute: Attribute) -> None:
    alone = {"CGALayout": (), "CTAsPerCGA": (1, 1), "CTASplitNum": (1, 1)}
    for key, value in alone.items():
        if attribute.values.get(key, value) != value:
            raise UnsupportedError(
                f"{key} = {attribute.values[key]} spreads a tile over several blocks",
                where=attribute.place,
                expected="a layout of one block",
            )


def _linear(attribute: Attribute, shape: tuple[int, int] | None) -> tuple[Spread, tuple[int, int]]:
    attribute.check_keys("register", "lane", "warp", "block")
    bases: dict[str, tuple[tuple[int, int], ...]] = {}
    for key in ("register", "lane", "warp", "block"):
        vectors = attribute.get(key, tuple)
        for vector in vectors:
            if not is_vector(vector):
                raise InputError(
                    f"{key} of #ttg.linear holds {vector!r}", where=attribute.place, expected="[row, column]"
                )
        bases[key] = vectors
    if bases["block"]:
        raise UnsupportedError(
            "#ttg.linear spreads a tile over several blocks", where=attribute.place, expected="block = []"
        )
    vectors = [*bases["register"], *bases["lane"], *bases["warp"]]
    sizes = tuple(1 << max((v[axis] for v in vectors), default=0).bit_length() for axis in (0, 1))
    if shape is not None and shape != sizes:
        raise InputError(
            f"#ttg.linear lays out a {sizes[0]} x {sizes[1]} tile", where=attribute.place,
            expected=f"{shape[0]} x {shape[1]}",
        )  # fmt: skip
    spread = Spread((sizes[0], sizes[1]), bases["register"], bases["lane"], bases["warp"])
    return spread, (1, 0)


def _blocked(attribute: Attribute, shape: tuple[int, int] | None) -> tuple[Spread, tuple[int, int]]:
    keys = {"register": "sizePerThread", "lane": "threadsPerWarp", "warp": "warpsPerCTA"}
    attribute.check_keys(*keys.values(), "order", *CLUSTER_KEYS)
    order = attribute.get("order", tuple)
    if sorted(order, key=str) != [0, 1]:
        raise UnsupportedError(
            f"order of #ttg.blocked is {list(order)}", where=attribute.place, expected="[1, 0] or [0, 1]"
        )
    spread = Spread()
    for kind, key in keys.items():
        spread = spread.over(kind, attribute.sizes(key, 2), order)
    return spread, order


def _operand(attribute: Attribute, shape: tuple[int, int] | None) -> tuple[Spread, tuple[int, int]]:
    attribute.check_keys("opIdx", "parent", "kWidth")
    index = attribute.get("opIdx", int)
    parent = attribute.get("parent", Attribute)
    if index not in (0, 1):
        raise InputError(f"opIdx is {index}", where=attribute.place, expected="0 for A or 1 for B")
    _check_one_block(parent)
    operands = {"nvidia_mma": mma_operand, "amd_mfma": mfma_operand, "amd_wmma": wmma_operand}
    if parent.name not in operands:
        raise UnsupportedError(
            f"an operand of #ttg.{parent.name}",
            where=parent.place,
            expected=", ".join(f"#ttg.{name}" for name in operands),
        )
    width = attribute.get("kWidth", int)
    if width < 1 or width & (width - 1) or width > 1 << 10:
        raise InputError(f"kWidth is {width}", where=attribute.place, expected="a power of two")
    return operands[parent.name](parent, index, width, shape)
