"""The templates of pages, filled in: every value in them is escaped, for names come from strangers' files."""

from __future__ import annotations

from typing import Any


def filled_template(name: str, **values: Any) -> str:
    """A template of this folder, every value in it escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("regweave.views", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(values)
