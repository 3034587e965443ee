"""A lane-level program as OpenCL C for machines whose lanes are the positions of a vector register.

    const float16 v12 = vload16(0, (global const float *)(x + v9 + 64));      // 16 lanes load 16 neighbours
    const float16 v15 = fma(v12, (float16)(as_float(v13)), v7);              // v13 is the same in all lanes

One work-item is a whole warp, so that a processor needs no guess about which work-items go together. What is
the same in all lanes stays a scalar; what is a scalar plus the lane's number times a constant is kept as
these two, which makes of an address one vector load where lanes stand side by side, two and a shuffle where
every other element is wanted, and of anything else a load for each lane. Steps inside a `When` of lanes' own
store lane by lane.

A block is a work-item: its number is the global one, and a work-group holds as many as the host likes.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.emitters.language import COMMON_EXPRESSIONS, Expression, infix
from regweave.emitters.opencl import OPENCL
from regweave.emitters.printer import Printer, indented
from regweave.errors import UnsupportedError
from regweave.programs import OPCODES, Loop, Program, Step, Value, When

LANES = (4, 8, 16)
_TYPES = {"f32": "float", "b32": "uint", "predicate": "int"}
_SCALARS = {1: "uchar", 2: "ushort", 4: "uint"}
# vectors mix with scalars in these
_MIXED: dict[str, Expression] = {
    **{
        name: COMMON_EXPRESSIONS[name]
        for name in ("and", "or", "xor", "add", "subtract", "multiply", "shift_left", "shift_right", "less")
    },
    "test": COMMON_EXPRESSIONS["test"],
    "divide": infix("/"),
    "add_f32": infix("+"),
    "maximum_f32": lambda values, numbers: f"fmax({values[0]}, {values[1]})",
}
_LINEAR = ("add", "subtract", "multiply", "shift_left")


class VectorPrinter(Printer):
    """Writes a kernel of one warp of 4, 8 or 16 lanes. UnsupportedError for steps that have no such form.

    Whole vectors of words that go to a memory named in `streamed` start at multiples of their size, and pass
    the caches (what clang has for that, all OpenCL compilers for processors have).
    """

    def __init__(self, program: Program, streamed: Sequence[str] = ()) -> None:
        super().__init__(program, OPENCL)
        self._streamed = streamed
        lanes, warps = program.lanes, program.warps
        shared = any(memory.space == "shared" for memory in program.memories)
        if lanes not in LANES or warps != 1 or shared or not program.kernel:
            raise UnsupportedError(
                f"{warps} warps of {lanes} lanes as vectors",
                where=program.name,
                expected="a kernel of one warp of 4, 8 or 16 lanes, without shared memory",
            )
        self._lanes = lanes
        # lane number times this, plus the text, is the value; None: the text is a vector
        self._strides: dict[int, int | None] = {}
        self._mask = ""

    def _kernel_words(self) -> str:
        # a compiler that knows so much does not try to make vectors of its own, which takes it as long again
        return f"__attribute__((vec_type_hint(float{self._lanes})))\nkernel void"

    def _items(self, items: Sequence[Step | Loop | When]) -> list[str]:
        if self._strides:
            return super()._items(items)
        numbers = ", ".join(map(str, range(self._lanes)))
        return [
            f"const {self._type('b32')} lanes = ({self._type('b32')})({numbers});",
            *super()._items(items),
        ]

    def _type(self, kind: str) -> str:
        return f"{_TYPES[kind]}{self._lanes}"

    def _wide(self, value: Value) -> str:
        """The value as a vector."""
        text, stride = self._texts[value.number], self._strides[value.number]
        if stride is None:
            return text
        if value.type == "predicate":
            return f"({self._type('predicate')})(-({text}))"
        if stride == 0:
            return f"({self._type(value.type)})({text})"
        return f"({text} + lanes * {stride}u)"

    def _mixable(self, value: Value) -> str:
        return self._texts[value.number] if self._strides[value.number] == 0 else self._wide(value)

    def _known(self, value: Value) -> int | None:
        step = self._steps.get(value.number)
        return step.numbers[0] if step is not None and step.opcode == "constant" else None

    def _step(self, step: Step) -> list[str]:
        strides = [self._strides[operand.number] for operand in step.operands]
        if step.opcode in ("lane", "thread"):
            self._texts[step.result.number], self._strides[step.result.number] = "0u", 1
            return []
        if step.opcode == "block":
            self._strides[step.result.number] = 0
            axis, name = "xyz".index(step.symbol), f"v{step.result.number}"
            self._texts[step.result.number] = name
            return [f"const uint {name} = get_global_id({axis});"]
        if step.opcode == "global_store":
            return self._store(step)
        if step.opcode == "global_load" and strides[0] != 0:
            return self._load(step)
        if all(stride == 0 for stride in strides) and step.opcode != "shuffle":
            if OPCODES[step.opcode].collective:
                raise UnsupportedError(f"{step.opcode} has no form in vectors", where=str(step))
            self._strides.update((result.number, 0) for result in step.results)
            return super()._step(step)
        if step.opcode in _LINEAR and self._linear(step, strides):
            return super()._step(step)
        return self._vector(step)

    def _linear(self, step: Step, strides: Sequence[int | None]) -> bool:
        """Whether the result is again a scalar plus a multiple of the lane; its stride is then known."""
        one, other = strides
        if one is None or other is None:
            return False
        factor = self._known(step.operands[1])
        if step.opcode in ("add", "subtract"):
            stride = one + other if step.opcode == "add" else one - other
        elif other == 0 and factor is not None:
            stride = one * factor if step.opcode == "multiply" else one << factor
        else:
            return False
        if stride < 0:
            return False
        self._strides[step.result.number] = stride
        return True

    def _vector(self, step: Step) -> list[str]:
        values, name = step.operands, f"v{step.result.number}"
        if step.opcode in _MIXED:
            text = _MIXED[step.opcode]([self._mixable(value) for value in values], step.numbers)
        elif step.opcode == "select":
            chosen, other = self._wide(values[1]), self._wide(values[2])
            text = f"{self._mixable(values[0])} ? {chosen} : {other}"
        elif step.opcode == "multiply_add_f32":
            text = f"fma({', '.join(self._wide(value) for value in values)})"
        elif step.opcode in ("bits", "number"):
            text = f"as_{self._type(step.result.type)}({self._wide(values[0])})"
        elif step.opcode == "widen_f16":
            return self._widened(step, name)
        elif step.opcode == "pack_f16":
            return self._packed(step, name)
        elif step.opcode == "shuffle" and step.numbers == (self._lanes,):
            text = f"shuffle({', '.join(self._wide(value) for value in values)})"  # indices modulo the lanes
        else:
            raise UnsupportedError(f"{step.opcode} has no form in vectors", where=str(step))
        return self._named(step.result, name, text)

    def _named(self, value: Value, name: str, text: str) -> list[str]:
        self._texts[value.number], self._strides[value.number] = name, None
        return [f"const {self._type(value.type)} {name} = {text};"]

    def _widened(self, step: Step, name: str) -> list[str]:
        """Halves that were just loaded from side by side are widened by the load itself."""
        source = self._steps.get(step.operands[0].number)
        if source is not None and source.opcode == "global_load" and source.numbers[0] == 2:
            (address,) = source.operands
            if self._strides[address.number] == 2:
                place = self._place(source, address)
                text = f"vload_half{self._lanes}(0, (global const half *)({place}))"
                return self._named(step.result, name, text)
            if self._strides[address.number] == 4:
                text = self._apart(self._place(source, address), "vload_half", "half", 2)
                return self._named(step.result, name, text)
        # OpenCL C widens halves in memory only, which compilers see through
        word, lanes = self._wide(step.operands[0]), self._lanes
        return [
            f"ushort h{name}[{lanes}];",
            f"vstore{lanes}(convert_ushort{lanes}({word} & 0xffffu), 0, h{name});",
            *self._named(step.result, name, f"vload_half{lanes}(0, (private const half *)h{name})"),
        ]

    def _packed(self, step: Step, name: str) -> list[str]:
        """Two values as halves of a word, narrowed by a store."""
        lines, lanes, words = [], self._lanes, []
        for place, value in zip("lh", step.operands, strict=True):
            half = f"{place}{name}"
            lines += [
                f"ushort {half}[{lanes}];",
                f"vstore_half{lanes}_rte({self._wide(value)}, 0, (private half *){half});",
            ]
            words.append(f"convert_{self._type('b32')}(vload{lanes}(0, {half}))")
        return [*lines, *self._named(step.result, name, f"{words[0]} | {words[1]} << 16u")]

    def _apart(self, place: str, load: str, kind: str, size: int) -> str:
        """Every other element from a place on, of two vectors that overlap: none beyond the last is read."""
        lanes = self._lanes
        places = place, f"{place} + {size * (lanes - 1)}"
        one, other = (f"{load}{lanes}(0, (global const {kind} *)({at}))" for at in places)
        kept = ", ".join(map(str, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]))
        return f"shuffle2({one}, {other}, ({self._type('b32')})({kept}))"

    def _place(self, step: Step, address: Value, lane: str = "") -> str:
        offset = step.numbers[1]
        text = self._texts[address.number]
        return f"{step.symbol} + {text}{lane}" + (f" + {offset}" if offset else "")

    def _load(self, step: Step) -> list[str]:
        size, (address,) = step.numbers[0], step.operands
        lines: list[str] = []
        if size <= 4 and self._strides[address.number] == size:
            kind = _SCALARS[size]
            text = f"vload{self._lanes}(0, (global const {kind} *)({self._place(step, address)}))"
            if size < 4:
                text = f"convert_{self._type('b32')}({text})"
            return self._named(step.result, f"v{step.result.number}", text)
        if size == 4 and self._strides[address.number] == 2 * size:
            text = self._apart(self._place(step, address), "vload", "uint", size)
            return self._named(step.result, f"v{step.result.number}", text)
        if self._strides[address.number] is not None:
            name = f"a{step.results[0].number}"
            lines.append(f"const {self._type('b32')} {name} = {self._wide(address)};")
        else:
            name = self._texts[address.number]
        kind = _SCALARS[min(size, 4)]
        for word, result in enumerate(step.results):
            offset = step.numbers[1] + 4 * word
            parts = (
                f"*(global const {kind} *)({step.symbol} + {name}.s{lane:x} + {offset})"
                for lane in range(self._lanes)
            )
            lines += self._named(result, f"v{result.number}", f"({self._type('b32')})({', '.join(parts)})")
        return lines

    def _store(self, step: Step) -> list[str]:
        size, (address, *words) = step.numbers[0], step.operands
        stride = self._strides[address.number]
        if stride == 0 and not self._mask:
            values = tuple(self._texts[word.number] for word in words)
            if all(self._strides[word.number] == 0 for word in words):
                return super()._step(step)
            raise UnsupportedError(f"lanes store {values} in one place", where=str(step))
        if size <= 4 and stride == size and not self._mask:
            return [self._whole_store(step, address, words[0])]
        lines = [f"const {self._type('b32')} to = {self._wide(address)};"]
        kind = _SCALARS[min(size, 4)]
        lines += [
            f"const {self._type('b32')} w{word} = {self._wide(value)};" for word, value in enumerate(words)
        ]
        for lane in range(self._lanes):
            guard = f"if ({self._mask}.s{lane:x}) " if self._mask else ""
            stores = (
                f"*(global {kind} *)({step.symbol} + to.s{lane:x} + {step.numbers[1] + 4 * word}) = "
                f"w{word}.s{lane:x};"
                for word in range(len(words))
            )
            lines.append(f"{guard}{{ {' '.join(stores)} }}")
        return ["{", *indented(lines), "}"]

    def _whole_store(self, step: Step, address: Value, word: Value) -> str:
        size, place = step.numbers[0], self._place(step, address)
        source = self._steps.get(word.number)
        if size == 2 and source is not None and source.opcode == "pack_f16":
            value = self._wide(source.operands[0])
            return f"vstore_half{self._lanes}_rte({value}, 0, (global half *)({place}));"
        kind, value = _SCALARS[size], self._wide(word)
        if size < 4:
            value = f"convert_{kind}{self._lanes}({value})"
        if size == 4 and step.symbol in self._streamed:
            return f"__builtin_nontemporal_store({value}, (global {kind}{self._lanes} *)({place}));"
        return f"vstore{self._lanes}({value}, 0, (global {kind} *)({place}));"

    def _when(self, when: When) -> list[str]:
        if self._strides[when.predicate.number] == 0:
            return super()._when(when)
        if self._mask:
            raise UnsupportedError("conditions of lanes inside one another", where=self.program.name)
        self._mask = self._texts[when.predicate.number]
        lines = self._items(when.body)
        self._mask = ""
        return ["{", *indented(lines), "}"]

    def _loop(self, loop: Loop) -> list[str]:
        """Carried values are vectors, for what is handed on need not be the same in all lanes."""
        lines, names = [], []
        for value in loop.carried:
            names.append(f"v{value.inside.number}")
            lines.append(f"{self._type(value.inside.type)} {names[-1]} = {self._wide(value.initial)};")
            for inner in (value.inside, value.result):
                self._texts[inner.number], self._strides[inner.number] = names[-1], None
        index = self._texts[loop.index.number] = f"v{loop.index.number}"
        self._strides[loop.index.number] = 0
        body = self._items(loop.body)
        handed = [f"n{value.inside.number}" for value in loop.carried]
        for value, name in zip(loop.carried, handed, strict=True):
            body.append(f"const {self._type(value.inside.type)} {name} = {self._wide(value.following)};")
        body += [f"{name} = {following};" for name, following in zip(names, handed, strict=True)]
        # bodies are as long as they should be; a compiler that repeats them takes minutes
        hint = "__attribute__((opencl_unroll_hint(1)))"
        heading = f"for (uint {index} = 0u; {index} < {loop.count}u; ++{index}) {{"
        return [*lines, hint, heading, *indented(body), "}"]
