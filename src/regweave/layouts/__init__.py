"""Which element lives in which register of which lane: layouts, their algebra, their tables."""

from regweave.layouts.algebra import compose, product, repeat
from regweave.layouts.elements import ELEMENT_TYPES, ElementType, element_type
from regweave.layouts.layout import Layout, Slot
from regweave.layouts.linear import Basis
from regweave.layouts.notations import to_cute, to_triton
from regweave.layouts.reading import from_csv, from_markdown
from regweave.layouts.tables import from_document, to_csv, to_document, to_markdown, to_text

__all__ = [
    "ELEMENT_TYPES",
    "Basis",
    "ElementType",
    "Layout",
    "Slot",
    "compose",
    "element_type",
    "from_csv",
    "from_document",
    "from_markdown",
    "product",
    "repeat",
    "to_csv",
    "to_cute",
    "to_document",
    "to_markdown",
    "to_text",
    "to_triton",
]
