"""Which element lives in which register of which lane: layouts, their algebra, their tables."""

from regweave.layouts.algebra import compose, product, repeat
from regweave.layouts.elements import ELEMENT_TYPES, ElementType, element_type
from regweave.layouts.layout import Layout, Slot
from regweave.layouts.linear import Basis
from regweave.layouts.tables import from_document, to_csv, to_document, to_text

__all__ = [
    "ELEMENT_TYPES",
    "Basis",
    "ElementType",
    "Layout",
    "Slot",
    "compose",
    "element_type",
    "from_document",
    "product",
    "repeat",
    "to_csv",
    "to_document",
    "to_text",
]
