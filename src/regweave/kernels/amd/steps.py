"""The steps of a product of blocks on an AMD GPU: loading, staging in LDS, storing.

    product_kernel(block_product("gfx906", "f32", columns=64)).text

Arguments of the kernels: addresses `a`, `b`, `c`; rows `m`, columns `n`; `depth`, bytes of a row of A and B;
`a_pitch`, `b_pitch`, `c_pitch`, bytes from row to row. A grid of ceil(n / columns) workgroups along y and
ceil(m / rows) along x. Addresses, depth and pitches are multiples of 4; elements of the last word of a row
beyond the matrix are zero.

Edges cost nothing in the loop: a buffer ends with the last row, so that rows beyond it read zeros and are not
written; the last block of the contraction is loaded word by word, by code that stands outside the loop, and
words beyond the row get an offset that no buffer reaches.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product as pairs

from regweave.assembly.amd import FinishedKernel, Kernel, Part
from regweave.assembly.variables import Variable
from regweave.kernels.amd.multiply import LaneMultiply, MatrixMultiply
from regweave.kernels.amd.product import CHUNK, ROW_BYTES, ROWS_AT_ONCE, THREADS, BlockProduct
from regweave.kernels.amd.tables import LOAD_CHUNK, LOAD_WORD, STAGE_CHUNK, STORE_WORD
from regweave.kernels.sequence import OPERANDS, Schedule, write_product

#: The third word of a buffer's description: plain bytes, each 32 bits checked against its end.
_PLAIN = 0x20000
#: As an offset, 3 GiB: beyond any buffer, and a number that needs no literal.
_NOWHERE = -4.0


@lru_cache(maxsize=32)
def product_kernel(product: BlockProduct) -> FinishedKernel:
    """The kernel of a description, with every register assigned."""
    steps = AmdSteps(product)
    write_product(steps)
    return steps.k.finish()


class AmdSteps:
    """The steps of `kernels.sequence`, emitted into a Kernel."""

    def __init__(self, product: BlockProduct) -> None:
        self.product = product
        wide = not product.step.matrix and product.tiles == (8, 8)
        self.k = Kernel(
            product.target,
            name=product.name,
            workgroup=(THREADS, 1, 1),
            lds_bytes=product.lds_bytes,
            occupancy=2 if wide else None,
        )
        kind = MatrixMultiply if product.step.matrix else LaneMultiply
        self.core = kind(self.k, product)
        self.staged: dict[str, list[Variable]] = {}
        self.edges: dict[tuple[str, int], list[Variable]] = {}

    @property
    def schedule(self) -> Schedule:
        """As the description says."""
        return self.product.schedule

    def enter(self) -> None:
        """Arguments, this workgroup's rows and columns, the lanes' places."""
        k, product = self.k, self.product
        for name in "abc":
            k.argument(name, "pointer")
        for name in ("m", "n", "depth", "a_pitch", "b_pitch", "c_pitch"):
            k.argument(name, "u32")
        pointers, sizes = k.scalar("pointers", count=4), k.scalar("sizes", count=4)
        out, pitches = k.scalar("out", count=2), k.scalar("pitches", count=2)
        k.emit_template("s_load_dwordx4 %0, %kernarg, argument(a)", pointers)
        k.emit_template("s_load_dwordx2 %0, %kernarg, argument(c)", out)
        k.emit_template("s_load_dwordx4 %0, %kernarg, argument(m)", sizes)
        k.emit_template("s_load_dwordx2 %0, %kernarg, argument(b_pitch)", pitches)
        m, n, self.depth, a_pitch = (Part(sizes, i) for i in range(4))
        b_pitch, c_pitch = Part(pitches, 0), Part(pitches, 1)
        self.n, self.c_pitch = n, c_pitch
        first_row, first_column = k.scalar("first_row"), k.scalar("first_column")
        k.emit("s_mul_i32", first_row, "group_x", product.rows)
        k.emit("s_mul_i32", first_column, "group_y", product.columns)
        self.first_column = first_column
        row_bytes = k.scalar("row_bytes")
        k.emit("s_lshl_b32", row_bytes, n, 2)
        own = product.rows, first_row, m
        self.buffers = {
            "A": self._buffer("a", Part(pointers, 0, 2), a_pitch, *own, self.depth),
            "B": self._buffer(
                "b", Part(pointers, 2, 2), b_pitch, product.columns, first_column, n, self.depth
            ),
            "C": self._buffer("c", out, c_pitch, *own, row_bytes),
        }
        self._enter_lanes({"A": a_pitch, "B": b_pitch})

    def _buffer(
        self,
        name: str,
        base: Variable | Part,
        pitch: Part,
        tile: int,
        first: Variable,
        total: Part,
        row_bytes: Variable | Part,
    ) -> Variable:
        """The description of `tile` rows from `first` on: it ends with the last row's last byte."""
        k = self.k
        buffer, rows = k.scalar(f"{name}_buffer", count=4), k.scalar("rows")
        low, high, size = Part(buffer, 0), Part(buffer, 1), Part(buffer, 2)
        whole = base if isinstance(base, Part) else Part(base, 0, 2)
        k.emit("s_mul_i32", low, first, pitch)
        k.emit("s_mul_hi_u32", high, first, pitch)
        k.emit("s_add_u32", low, low, Part(whole.variable, whole.first))
        k.emit("s_addc_u32", high, high, Part(whole.variable, whole.first + 1))
        k.emit("s_sub_i32", rows, total, first)
        k.emit("s_min_i32", rows, rows, tile)
        k.emit("s_sub_i32", rows, rows, 1)
        k.emit("s_mul_i32", size, rows, pitch)
        k.emit("s_add_u32", size, size, row_bytes)
        k.emit("s_mov_b32", Part(buffer, 3), _PLAIN)
        return buffer

    def _enter_lanes(self, pitches: dict[str, Part]) -> None:
        """Every lane's place in LDS to write to, and its offsets in memory."""
        k, product = self.k, self.product
        thread = "thread" if product.target.unified else "thread_x"
        self.write_place = k.vector("write_place")
        k.emit("v_lshlrev_b32", self.write_place, 4, thread)
        self.offsets, self.moves = {}, {}
        row = k.vector("row")
        k.emit("v_lshrrev_b32", row, 2, thread)
        block = k.scalar("block")
        k.emit("s_mov_b32", block, 0)
        for operand in OPERANDS:
            offset = self.offsets[operand] = k.vector(f"{operand.lower()}_offset")
            chunk = k.vector("chunk")
            self._chunk(chunk, operand)
            k.emit("v_mul_lo_u32", offset, row, pitches[operand])
            k.emit("v_add_u32", offset, offset, chunk)
            moves = self.moves[operand] = [block]
            step = k.scalar("step")
            if product.loads(operand) > 1:
                k.emit("s_mul_i32", step, pitches[operand], ROWS_AT_ONCE)
            for load in range(1, product.loads(operand)):
                move = k.scalar(f"{operand.lower()}_move{load}")
                k.emit("s_add_u32", move, moves[-1], step)
                moves.append(move)
        self.left = k.scalar("left")
        k.emit("s_mov_b32", self.left, self.depth)
        self.core.enter(thread)

    def _chunk(self, chunk: Variable | Part, operand: str) -> None:
        """Bytes from a block's begin in memory to the chunk that this lane loads."""
        k = self.k
        if self.product.xored(operand):
            k.emit("v_lshrrev_b32", chunk, 3, self.write_place)
            k.emit("v_xor_b32", chunk, chunk, self.write_place)
            k.emit("v_and_b32", chunk, 48, chunk)
        else:
            k.emit("v_and_b32", chunk, 48, self.write_place)

    def load(self, operand: str, buffer: int | None) -> None:
        """The next block in whole chunks; the last one by words, outside the loop."""
        k = self.k
        if buffer is None:
            self.staged[operand] = self._new_staged(operand)
            self._load_words(operand, 0)
            return
        self.staged[operand] = self.edges[operand, buffer]
        k.emit("s_cmp_lt_i32", self.left, ROW_BYTES)
        k.emit("s_cbranch_scc1", f"edge_{operand}{buffer}")
        text = LOAD_CHUNK.format(self._ahead(buffer))
        for staged, move in zip(self.staged[operand], self.moves[operand], strict=True):
            k.emit_template(text, staged, self.offsets[operand], self.buffers[operand], move)
        k.label(f"back_{operand}{buffer}")

    def _ahead(self, buffer: int) -> int:
        """Bytes from the blocks that the loop's round began with to the block behind that in `buffer`."""
        return (buffer + 1) * ROW_BYTES

    def _new_staged(self, operand: str) -> list[Variable]:
        """Registers for what is under way."""
        name = f"{operand.lower()}_staged"
        return [self.k.vector(f"{name}{load}", count=4) for load in range(self.product.loads(operand))]

    def _load_words(self, operand: str, ahead: int) -> None:
        """The words of a block that the rows still have; zeros for the others."""
        k, staged = self.k, self.staged[operand]
        inside, chunk = k.scalar("inside"), Part(staged[0], 0)
        self._chunk(chunk, operand)
        masks = [k.scalar("mask", count=2) for _ in range(CHUNK // 4)]
        for word, mask in enumerate(masks):
            k.emit("s_sub_i32", inside, self.left, 4 * word)
            k.emit("v_cmp_gt_i32", mask, inside, chunk)
        for quad, (word, mask) in pairs(staged, list(enumerate(masks))):
            k.emit("v_cndmask_b32", Part(quad, word), _NOWHERE, self.offsets[operand], mask)
        for word, (quad, move) in pairs(range(len(masks)), zip(staged, self.moves[operand], strict=True)):
            place, text = Part(quad, word), LOAD_WORD.format(ahead + 4 * word)
            k.emit_template(text, place, place, self.buffers[operand], move)

    def stage(self, operand: str, buffer: int) -> None:
        """Every lane's chunks to LDS, the last to arrive first: one wait serves all."""
        base = self.product.base(operand, buffer)
        for load, staged in reversed(list(enumerate(self.staged[operand]))):
            at = base + load * ROWS_AT_ONCE * ROW_BYTES
            self.k.emit_template(STAGE_CHUNK.format(at), self.write_place, staged)

    def publish(self) -> None:
        """All waves have staged."""
        self.k.emit("s_barrier")

    def open_loop(self) -> None:
        """The loop's head; before it the code that loads last blocks."""
        k = self.k
        k.emit("s_branch", "blocks")
        for buffer in range(self.schedule.buffers):
            for operand in OPERANDS:
                k.label(f"edge_{operand}{buffer}")
                self.staged[operand] = self.edges[operand, buffer] = self._new_staged(operand)
                self._load_words(operand, self._ahead(buffer))
                k.emit("s_branch", f"back_{operand}{buffer}")
        k.label("blocks")

    def next_block(self, buffer: int) -> None:
        """One block fewer is left to load."""
        self.k.emit("s_sub_i32", self.left, self.left, ROW_BYTES)

    def multiply(self, buffer: int, piece: int) -> None:
        """The machine's own way."""
        self.core.multiply(buffer, piece)

    def leave_if_done(self) -> None:
        """Without a block that was loaded, the sums are complete."""
        self.k.emit("s_cmp_lt_i32", self.left, 1)
        self.k.emit("s_cbranch_scc1", "done")

    def close_loop(self) -> None:
        """Both buffers were multiplied: move on by two blocks."""
        k = self.k
        for move in dict.fromkeys(move for operand in OPERANDS for move in self.moves[operand]):
            k.emit("s_add_u32", move, move, self.schedule.buffers * ROW_BYTES)
        k.emit("s_branch", "blocks")
        k.label("done")

    def store(self) -> None:
        """All sums, columns beyond the matrix nowhere."""
        k, core = self.k, self.core
        thread = k.vector("thread_again")
        k.emit("v_lshrrev_b32", thread, 4, self.write_place)
        row, column = core.result_place(thread)
        start = k.vector("start")
        k.emit("v_mul_lo_u32", start, row, self.c_pitch)
        k.emit("v_add_u32", column, self.first_column, column)
        columns = {}
        for delta in core.column_deltas:
            at, offset = k.vector("at_column"), k.vector("column_offset")
            k.emit("v_add_u32", at, delta, column)
            k.emit("v_cmp_gt_u32", "vcc", self.n, at)
            k.emit("v_lshl_add_u32", offset, at, 2, start)
            k.emit("v_cndmask_b32", offset, _NOWHERE, offset, "vcc")
            columns[delta] = offset
        move = k.scalar("row_move")
        for delta, sums in core.sums():
            k.emit("s_mul_i32", move, self.c_pitch, delta)
            for at_column, value in sums:
                k.emit_template(STORE_WORD, value, columns[at_column], self.buffers["C"], move)
        k.emit("s_endpgm")
