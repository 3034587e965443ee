"""The strategy exchange on vector machines: picks of two registers at a time.

Its modules serve the planner; nothing of it is public.
"""

__all__: list[str] = []
