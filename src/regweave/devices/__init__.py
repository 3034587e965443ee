"""Devices: assemble, load and run what the planners made."""
