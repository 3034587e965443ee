"""A convolution's plan in words, with the rows that neighbouring threads read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan

_FORMS = {
    "none": "the image is read as it is",
    "polyphase": "rows are split into phases, one for each place within the stride",
    "unrolled": "each row becomes one row per kernel column",
    "transformed": "rows are combined so that fewer products are needed",
}
_LANES = {
    "pixels": "neighbouring pixels of a row",
    "filters": "neighbouring filters of a pixel",
    "channels": "neighbouring channels, each with a kernel of its own",
}
_SHOWN = 3  # threads above one another


def convolution_text(plan: ConvPlan) -> str:
    """The plan for a person: choices, accounting, which rows threads read, and what else there was."""
    c, r = plan.convolution, plan.registers
    across, down, filters = plan.outputs_per_thread
    one = "vector" if plan.machine.kind != "gpu" and plan.lanes == "pixels" else "output"
    parts = accounting(plan)
    rows = [
        ("form", f"{plan.form}: {_FORMS[plan.form]} ({plan.expansion:.2f} times the image)"),
        *([("lanes", _LANES[plan.lanes])] if plan.order == "nhwc" or plan.lanes != "pixels" else []),
        ("threads", f"{plan.threads[0]} x {plan.threads[1]}, in groups of {plan.group[0]} x {plan.group[1]}"),
        ("each", f"{_many(across, one)} along the row, {_many(down, 'row')}, {_many(filters, 'filter')}"),
        ("registers", f"{r.used} of {r.available}: " + ", ".join(f"{n} {word}" for n, word in parts if n)),
        ("moved", f"{_size(plan.bytes)}, for {_count(plan.flops)} operations"),
        ("workspace", f"{_size(plan.workspace_bytes)}"),
        ("predicted", f"{_time(plan.predicted_ms)}, bound by {plan.limit}, on {plan.machine.chip}"),
    ]
    order = ", channels last" if plan.order == "nhwc" else ""
    lines = [f"{c}, {plan.dtype}{order}, on {plan.machine.title}", ""]
    lines += [f"  {name:<11}{words}" for name, words in rows]
    lines += ["", f"  Threads above one another share {plan.overlap} image rows:", ""]
    lines += [f"    {words}" for words in row_words(plan)]
    lines += [f"\n  {note}." for note in plan.notes]
    if plan.alternatives:
        lines += ["", "  Not taken:", ""]
        for other in plan.alternatives:
            tile = " x ".join(map(str, other.outputs_per_thread))
            lines.append(f"    {other.form:<12}{tile:<12}{_time(other.predicted_ms):>10}  {other.reason}")
    return "\n".join(lines) + "\n"


def accounting(plan: ConvPlan) -> tuple[tuple[int, str], ...]:
    """How many of a thread's registers hold what."""
    r = plan.registers
    return (
        (r.accumulators, "result" if r.accumulators == 1 else "results"),
        (r.rows, "image"),
        (r.weights, "weight" if r.weights == 1 else "weights"),
        (r.addresses, "address" if r.addresses == 1 else "addresses"),
        (r.ahead, "loads ahead"),
    )


def row_words(plan: ConvPlan) -> list[str]:
    """Which output rows the first threads of a column compute, and which image rows they read."""
    axis, each = plan.convolution.vertical, plan.outputs_per_thread[1]
    words = []
    for thread in range(min(_SHOWN, plan.threads[1])):
        first, last = thread * each, min((thread + 1) * each, axis.outputs) - 1
        low, high = max(0, axis.place(first, 0)), min(axis.size - 1, axis.place(last, axis.kernel - 1))
        words.append(f"outputs {first:>4} .. {last:<4} read rows {low:>4} .. {high}")
    return words


def _size(count: int) -> str:
    if count >= 1e9:
        return f"{count / 1e9:.4g} GB"
    if count >= 1e6:
        return f"{count / 1e6:.4g} MB"
    return f"{count / 1e3:.4g} kB" if count >= 1e3 else f"{count} bytes"


def _many(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _count(number: int) -> str:
    for unit, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= unit:
            return f"{number / unit:.4g} {word}"
    return str(number)


def _time(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.4g} s"
    return f"{milliseconds:.3g} ms" if milliseconds >= 0.1 else f"{1000 * milliseconds:.3g} us"
