"""Instructions as functions of a cohort: `preparing` finds the one for a step, before anything runs.

Arithmetic takes its operands by `sources` (from `words`, by `lanes` where DPP moves them), computes by the
meanings in `machines/amd/assembly`, and writes by `results`; accesses to memory take theirs by `addresses`.
"""

__all__: list[str] = []
