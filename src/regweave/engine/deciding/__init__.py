"""Which pieces run natively.

proposals    what is worth a try; `predictions`: by the cost model
evidence     what is measured, verified and raced for a decision
judgement    what became of a proposal, and why
sieving      what is left of proposals, step by step; `growing`: regions in the place of pieces
deciding     from proposals to a model; `uniting`: as few native operators as take no longer
"""

__all__: list[str] = []
