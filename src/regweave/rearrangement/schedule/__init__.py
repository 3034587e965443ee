"""Who takes what from whom in which round: coordination matrices without conflicts, in the fewest rounds.

Its modules serve the planner; nothing of it is public.
"""

__all__: list[str] = []
