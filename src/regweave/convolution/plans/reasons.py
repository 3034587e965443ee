"""Why a plan is what it is: what would have fitted too, and what the others would have taken."""

from __future__ import annotations

from collections.abc import Sequence

from regweave.convolution.forms import FORMS
from regweave.convolution.plans.costs import border_share, useful_share
from regweave.convolution.plans.plan import Alternative, ConvPlan

#: Alternatives that are told of.
_TOLD = 6


def notes_of(best: ConvPlan, plans: Sequence[ConvPlan]) -> tuple[str, ...]:
    notes = []
    ox, oy, oc = best.outputs_per_thread
    if oy < best.most_rows:
        fuller = next(
            (
                plan
                for plan in plans
                if plan.form == best.form and plan.outputs_per_thread == (ox, best.most_rows, oc)
            ),
            None,
        )
        note = f"{best.most_rows} outputs along the column would fit the registers"
        if fuller is not None:  # not costed where a caller insists on fewer
            note += f", but take {fuller.predicted_ms / best.predicted_ms:.2f} times as long"
        notes.append(note)
    if best.registers.needed > best.machine.full_registers:
        notes.append(
            f"{best.registers.needed} registers of a thread are more than the "
            f"{best.machine.full_registers} with which all threads stay resident"
        )
    if best.strips > 1:
        notes.append(f"rows are rearranged {best.strip_lines} at a time, in {best.strips} strips")
    return tuple(notes)


def alternatives_of(best: ConvPlan, plans: Sequence[ConvPlan]) -> tuple[Alternative, ...]:
    """The best of every other form, then the next best tiles."""
    others: list[ConvPlan] = []
    for form in FORMS:
        found = next((plan for plan in plans if plan.form == form and plan.form != best.form), None)
        if found is not None:
            others.append(found)
    others += [plan for plan in plans if plan is not best and plan not in others][: _TOLD - len(others)]
    return tuple(
        Alternative(plan.form, plan.outputs_per_thread, plan.predicted_ms, _reason(plan, best))
        for plan in others
    )


def _reason(plan: ConvPlan, best: ConvPlan) -> str:
    ratio = f"{plan.predicted_ms / best.predicted_ms:.2f} times as long"
    if plan.form != best.form:
        if plan.form == "none":
            why = (
                "elements that are no neighbours" if plan.convolution.horizontal.stride > 1 else "its border"
            )
            return f"{ratio}: {why}, {100 * border_share(plan):.0f} % of the tiles at a border"
        strips = "1 strip" if plan.strips == 1 else f"{plan.strips} strips"
        return f"{ratio}: the rows become {plan.expansion:.2f} times as many, {strips}"
    if useful_share(plan) < 0.98 * useful_share(best):
        return f"{ratio}: computes {100 / useful_share(plan) - 100:.0f} % in vain"
    if plan.registers.needed > best.machine.full_registers >= best.registers.needed:
        return f"{ratio}: its registers halve the resident threads"
    return f"{ratio}: more loads for each product"
