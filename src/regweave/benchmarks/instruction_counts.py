"""How many instructions a program takes: its kernel minus the same kernel without it, both compiled.

Words come from nowhere that the compiler knows and go where it cannot follow: volatile accesses to one
place of each thread on NVIDIA's GPUs, empty assembly on AMD's. So nothing but the program can differ. The
thread's number, which every kernel needs for its addresses, is there in both; that of a lane counts.
"""

from __future__ import annotations

from regweave.benchmarks.triton_record import Counts
from regweave.devices import cuda, hip
from regweave.devices.compiled_code import CompiledCode
from regweave.emitters import emit
from regweave.machines.gpu import WarpMachine
from regweave.programs import Program

_TYPES = {"f32": "float", "b32": "unsigned"}
_HEADING = 'extern "C" __global__ void __launch_bounds__({threads})'
# a kernel's parameters, what it begins with, how it takes a word and how it gives one away
_WAYS = {
    "cuda": (
        "const volatile {taken} *x, volatile {given} *y",
        "const unsigned thread = threadIdx.x;",
        "{word} = x[thread];",
        "y[thread] = {word};",
    ),
    "hip": (
        "",
        "",
        'asm volatile("; takes %0" : "=v"({word}));',
        'asm volatile("; gives %0" : : "v"({word}));',
    ),
}


def count_instructions(program: Program, machine: WarpMachine) -> Counts:
    """The instructions of a program on a machine of NVIDIA's or AMD's.

    DeviceError if the compiler is missing or refuses.
    """
    language, device = ("hip", hip) if machine.family == "amd" else ("cuda", cuda)
    source, destination = program.source, program.destination
    whole = (_TYPES[source.type], source.words, _TYPES[destination.type], destination.words)
    arrays = [memory for memory in program.memories if memory.space == "shared"]
    shared = "".join(
        f"    __shared__ __attribute__((aligned(16))) unsigned char {memory.name}[{memory.bytes}];\n"
        for memory in arrays
    )
    names = ", ".join(["held", "wanted", *(memory.name for memory in arrays)])
    bare = (_TYPES[source.type], source.words, _TYPES[source.type], source.words)
    threads = program.lanes * program.warps
    text = emit(program, language)
    text += _kernel("trial", language, threads, whole, f"{shared}    {program.name}({names});\n")
    text += _kernel("bare", language, threads, bare, "")
    return counts_between(*device.inspect(text, machine.name, "trial", "bare"))


def counts_between(whole: CompiledCode, bare: CompiledCode) -> Counts:
    """What one kernel has more than another."""
    kinds = ("exchange", "select", "byte_permute")
    exchanges, selects, permutes = (whole.count(kind) - bare.count(kind) for kind in kinds)
    return Counts(exchanges, selects, permutes, len(whole) - len(bare))


def _kernel(name: str, language: str, threads: int, words: tuple[str, int, str, int], called: str) -> str:
    """A kernel that takes words, does what is `called` with them and gives words away; or the same ones."""
    taken, held, given, wanted = words
    parameters, begin, take, give = _WAYS[language]
    results = "wanted" if called else "held"
    lines = [
        f"{_HEADING.format(threads=threads)} {name}({parameters.format(taken=taken, given=given)}) {{\n",
        f"    {begin}\n    {taken} held[{held}];\n",
        *(f"    {take.format(word=f'held[{index}]')}\n" for index in range(held)),
        *([f"    {given} wanted[{wanted}];\n", called] if called else []),
        *(f"    {give.format(word=f'{results}[{index}]')}\n" for index in range(wanted)),
        "}\n",
    ]
    return "".join(lines)
