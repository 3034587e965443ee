"""A layout's JSON document as text, read strictly: one mapping, no key twice.

>>> read_document('{"name": "x", "shape": [1, 2], "dtype": "b32", "elements": [[[0, 0], [0, 1]]]}').items
2
"""

from __future__ import annotations

import json
from typing import Any

from regweave.errors import InputError
from regweave.layouts import Layout, from_document


def read_document(text: str, where: str | None = None) -> Layout:
    """The layout of a JSON document; InputError, at `where`, if the text is none."""
    try:
        document = json.loads(text, object_pairs_hook=_mapping)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"not a JSON document: {error}", where=where, expected="a layout's document"
        ) from error
    if not isinstance(document, dict):
        raise InputError("the document is not a mapping", where=where, expected="a layout's document")
    return from_document(document)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys are all different; ValueError otherwise."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("an object has one key twice")
    return mapping
