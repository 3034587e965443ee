"""Assembly with registers assigned up front: templates, analysis, allocation, text.

A `builder` collects operations (`declarations` makes what they work on, `recorder` keeps them as a
`program`), or `text` reads them from a file. `flow` finds where each variable is live, `allocation` gives it
registers (by their `interference` and `colouring`, and after `splitting` where that gets stuck), `proof` runs
the result on names instead of numbers, a `listing` is the text with its `maps`. `amd` does the same for GPUs,
where waits and distances come on top.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.assembly.builder import Builder
    from regweave.assembly.listing import Listing
    from regweave.assembly.maps import Pressure, RegisterMap
    from regweave.assembly.proof import prove
    from regweave.assembly.text import parse_text
    from regweave.assembly.variables import Memory, Variable

__all__ = ["Builder", "Listing", "Memory", "Pressure", "RegisterMap", "Variable", "parse_text", "prove"]

__getattr__ = lazy_names(
    __name__,
    builder=("Builder",),
    listing=("Listing",),
    maps=("Pressure", "RegisterMap"),
    proof=("prove",),
    text=("parse_text",),
    variables=("Memory", "Variable"),
)
