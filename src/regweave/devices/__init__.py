"""Devices: assemble, load and run what the planners made."""

__all__: list[str] = []
