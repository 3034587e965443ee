"""The strategy exchange in steps: butterflies, relays, fused transposes; for relations linear over bits.

Its modules serve the planner; nothing of it is public.
"""

__all__: list[str] = []
