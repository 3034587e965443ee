"""The strategy exchange in rounds of shuffles: its direct and its lean form, and their programs.

Its modules serve the planner; nothing of it is public.
"""

__all__: list[str] = []
