"""The strategy shared: through shared memory, without bank conflicts.

Its modules serve the planner; nothing of it is public.
"""

__all__: list[str] = []
