"""Words put together from pieces of others by selects and permutes of two words at a time.

Its modules serve the planner; nothing of it is public.
"""

__all__: list[str] = []
