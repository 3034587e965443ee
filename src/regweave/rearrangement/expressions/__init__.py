"""Index expressions: what a lane computes from its number, found from a table and proved equal to it.

Its modules serve the planner; nothing of it is public.
"""

__all__: list[str] = []
