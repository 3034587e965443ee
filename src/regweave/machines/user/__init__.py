"""What a user adds without touching the library: machines, instructions and layouts, from a TOML file.

`file` reads it and says how it looks, `machine`, `layout` and `keys` read its parts; the catalogue asks.
"""

__all__: list[str] = []
