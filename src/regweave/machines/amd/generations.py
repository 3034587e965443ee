"""AMD's generations: wave64 with and without matrix cores (gfx9), wave32 with WMMA (gfx11, gfx12).

Costs are issue slots of a plain 32-bit vector instruction of a wave. The four (two) vector units of a compute
unit issue one (two) such instructions per clock together, the LDS serves 128 bytes per clock: a word per lane
in or out, or across by `ds_bpermute_b32`, takes two slots. DPP moves and permlane swaps are vector
instructions and take one.

Rounding to nearest even is what packing means here. `v_cvt_pkrtz_f16_f32` rounds toward zero, so that a
pair of f16 takes two conversions and a pack, up to gfx950 which has `v_cvt_pk_f16_f32`; bf16 is a matter of
integer arithmetic before gfx950. Narrower results are kept within their bounds first: `v_med3` for each of
the two, and of floats a test and a choice, for a NaN must not become a number.

Waves of 64 lanes on gfx11 and gfx12 exchange within halves only (`ds_bpermute_b32` does not cross lane 32),
and so have no `shuffle`.
"""

from __future__ import annotations

from regweave.machines.amd.dots import dot_entries
from regweave.machines.amd.mfma import mfma_entries
from regweave.machines.amd.wmma import wmma_entries
from regweave.machines.gpu import MatrixInstruction, StepCosts, WarpMachine
from regweave.machines.machine import RegisterClass
from regweave.machines.ondemand import OnDemand

_COSTS = StepCosts(
    shuffle=2, select=1, permute=1, move=1, logic=1, test=1, convert=1, shared_store=2, shared_load=2
)
_MFMA, _ALIASES = mfma_entries()
INSTRUCTIONS: OnDemand[MatrixInstruction] = OnDemand(
    dot_entries()
    | _MFMA
    | wmma_entries(11, 32)
    | wmma_entries(11, 64)
    | wmma_entries(12, 32)
    | wmma_entries(12, 64),
    _ALIASES,
)


def _registers(accumulation: bool, aligned: bool, scalars: int) -> tuple[RegisterClass, ...]:
    """Vector, accumulation and scalar registers; tuples of the former start at even numbers if `aligned`."""
    alignment = 2 if aligned else 1
    vectors = [RegisterClass("vector", "v", tuple(f"v{i}" for i in range(256)), 32, alignment)]
    if accumulation:
        vectors.append(RegisterClass("accumulation", "a", tuple(f"a{i}" for i in range(256)), 32, alignment))
    return (*vectors, RegisterClass("scalar", "s", tuple(f"s{i}" for i in range(scalars)), 32))


_DPP = ("dpp_quad_perm", "dpp_row_ror", "dpp_row_mirror", "dpp_row_half_mirror")
_DPP_10 = (*_DPP, "dpp_row_share", "dpp_row_xmask", "dpp8", "permlane16", "permlanex16")
# the opcodes of moves between lanes that are vector instructions, by an exchange that they stand for
_MOVES = {
    "dpp_quad_perm": "row_move",
    "permlane16": "row_permute",
    "permlane32_swap": "lane_swap",
    "permlane64": "half_swap",
}
_INTEGERS = {"pack_s16": 4, "pack_u16": 3, "pack_s8": 5, "pack_u8": 4, "pack_s4": 6, "pack_u4": 4}
_JOIN = {"pack_low": 1, "pack_high": 1}
_HALVES = {"pack_f16": 3, "pack_bf16": 9}


def _generation(
    name: str,
    title: str,
    lanes: int,
    exchanges: tuple[str, ...],
    packings: dict[str, int],
    endings: tuple[str, ...] = (),
    *,
    accumulation: bool = False,
    aligned: bool = False,
    scalars: int = 102,
    shared_kilobytes: int = 64,
    shared_banks: int = 32,
    wide_load: tuple[int, ...] = (),
) -> WarpMachine:
    """A machine; `packings` are opcodes with their issue slots, `endings` those that its instructions' names
    have beyond their mnemonics, `wide_load` the lanes that `ds_read_b128` serves in one phase."""
    own = INSTRUCTIONS.on(name)
    # the mnemonic alone means the machine's own form
    bare = {key.removesuffix(ending): key for ending in endings for key in own if key.endswith(ending)}
    return WarpMachine(
        name=name,
        family="amd",
        title=title,
        lanes=lanes,
        classes=_registers(accumulation, aligned, scalars),
        costs=_COSTS,
        shuffle_widths=(lanes,),
        packings=frozenset(packings),
        exchanges=frozenset(exchanges),
        shared_bytes=shared_kilobytes << 10,
        shared_banks=shared_banks,
        shared_widths=(4, 8, 16),
        instructions=OnDemand(own.entries, own.aliases | bare),
        opcode_costs={
            **{opcode: slots for opcode, slots in packings.items() if slots != _COSTS.convert},
            **{opcode: 1 for exchange, opcode in _MOVES.items() if exchange in exchanges},
        },
        shared_phases={("load", 16): wide_load} if wide_load else {},
        selector_slots=4,  # v_perm_b32 selects by bytes, not by digits
    )


GFX906 = _generation("gfx906", "AMD Vega 20 (MI50, MI60)", 64, ("shuffle", *_DPP), _HALVES | _INTEGERS)
GFX908 = _generation(
    "gfx908", "AMD CDNA (MI100)", 64, ("shuffle", *_DPP), _HALVES | _INTEGERS, accumulation=True
)
GFX90A = _generation(
    "gfx90a",
    "AMD CDNA 2 (MI200)",
    64,
    ("shuffle", *_DPP, "dpp_row_newbcast"),
    _HALVES | _INTEGERS,
    accumulation=True,
    aligned=True,
    wide_load=(1, 2, 20),
)
GFX942 = _generation(
    "gfx942",
    "AMD CDNA 3 (MI300)",
    64,
    ("shuffle", *_DPP, "dpp_row_newbcast"),
    _HALVES | _INTEGERS | {"pack_e4m3fnuz": 7, "pack_e5m2fnuz": 7},
    (".fnuz",),
    accumulation=True,
    aligned=True,
    wide_load=(1, 2, 20),
)
GFX950 = _generation(
    "gfx950",
    "AMD CDNA 4 (MI350)",
    64,
    ("shuffle", *_DPP, "dpp_row_newbcast", "permlane16_swap", "permlane32_swap"),
    {"pack_f16": 1, "pack_bf16": 1, "pack_e4m3": 7, "pack_e5m2": 7, "pack_e2m1": 7} | _INTEGERS,
    accumulation=True,
    aligned=True,
    shared_kilobytes=160,
    shared_banks=64,
    wide_load=(1, 2, 12, 20),
)
GFX1100 = _generation(
    "gfx1100", "AMD RDNA 3 (RX 7900)", 32, ("shuffle", *_DPP_10), _HALVES | _INTEGERS | _JOIN, scalars=106
)
GFX1100_W64 = _generation(
    "gfx1100_w64",
    "AMD RDNA 3 (RX 7900), waves of 64",
    64,
    (*_DPP_10, "permlane64"),
    _HALVES | _INTEGERS | _JOIN,
    ("_w64",),
    scalars=106,
)
_FLOATS_12 = {"pack_e4m3": 7, "pack_e5m2": 7}
GFX1200 = _generation(
    "gfx1200",
    "AMD RDNA 4 (RX 9000)",
    32,
    ("shuffle", *_DPP_10),
    _HALVES | _INTEGERS | _FLOATS_12,
    ("_gfx12",),
    scalars=106,
)
GFX1200_W64 = _generation(
    "gfx1200_w64",
    "AMD RDNA 4 (RX 9000), waves of 64",
    64,
    (*_DPP_10, "permlane64"),
    _HALVES | _INTEGERS | _FLOATS_12,
    ("_w64_gfx12",),
    scalars=106,
)

MACHINES = {
    machine.name: machine
    for machine in (
        GFX906, GFX908, GFX90A, GFX942, GFX950, GFX1100, GFX1100_W64, GFX1200, GFX1200_W64,
    )
}  # fmt: skip
