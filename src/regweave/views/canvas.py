"""A small writer of SVG: rectangles, words and arrows, as one self-contained element without scripts.

    >>> canvas = Canvas("two by two")
    >>> canvas.box(0, 0, 40, 20, lane_colour(3, 0), "lane 3", "L3")
    >>> canvas.svg().startswith("<svg ")
    True

The drawing brings its own background, for a notebook's may be dark. Colours are written as #rrggbb: a browser
reads hsl(), an office program or a converter to PNG draws it black.
"""

from __future__ import annotations

import colorsys
from html import escape

_GOLDEN_ANGLE = 137.508  # degrees; consecutive lanes land far apart on the colour wheel
_LIGHTEST, _DARKEST = 90, 68  # percent; dark text stays readable on both
_MARGIN = 12
_INK, _FAINT, _LINE = "#1a1a1a", "#666", "#8a8a8a"


def lane_colour(lane: int, shade: float = 0.0) -> str:
    """The colour of a lane; `shade` from 0 (light) to 1 (dark) tells its registers apart."""
    return colour(lane * _GOLDEN_ANGLE, 62, _LIGHTEST - (_LIGHTEST - _DARKEST) * shade)


def colour(hue: float, saturation: float, lightness: float) -> str:
    """#rrggbb of a hue in degrees, saturation and lightness in percent."""
    parts = colorsys.hls_to_rgb(hue / 360 % 1, lightness / 100, saturation / 100)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


class Canvas:
    """Collects shapes; `svg` is as large as what was drawn."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._right = self._bottom = 0.0

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, hint: str = "", text: str = ""
    ) -> None:
        """A rectangle; `hint` appears under the pointer, `text` stands inside, `|` parts two lines."""
        self._grow(x + width, y + height)
        shape = (
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" '
            f'stroke="{_LINE}" stroke-width="0.6"/>'
        )
        lines = text.split("|") if text else []
        middle = y + height / 2 + 4 - 5.5 * (len(lines) - 1)
        words = [
            _words(
                x + width / 2, middle + 11 * number, line, 10 if number else 11, "middle", _INK, number == 0
            )
            for number, line in enumerate(lines)
        ]
        title = f"<title>{escape(hint, quote=False)}</title>" if hint else ""
        self._parts.append(f"<g>{title}{shape}{''.join(words)}</g>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 11,
        middle: bool = False,
        bold: bool = False,
        faint: bool = False,
    ) -> None:
        """One line of text whose baseline is at y, starting at x or centred on it."""
        self._grow(x + (0.31 if middle else 0.62) * size * len(text), y)
        ink = _FAINT if faint else _INK
        self._parts.append(_words(x, y, text, size, "middle" if middle else "start", ink, bold))

    def arrow(self, x: float, y: float, length: float) -> None:
        """An arrow to the right."""
        self._grow(x + length, y)
        end = x + length
        self._parts.append(
            f'<path d="M{x:g} {y:g}H{end:g}M{end - 6:g} {y - 4:g}L{end:g} {y:g}L{end - 6:g} {y + 4:g}" '
            f'fill="none" stroke="{_INK}" stroke-width="1.4"/>'
        )

    @property
    def bottom(self) -> float:
        """The lowest edge so far."""
        return self._bottom

    @property
    def right(self) -> float:
        """The rightmost edge so far."""
        return self._right

    def svg(self) -> str:
        """The drawing as one `<svg>` element."""
        width, height = self._right + _MARGIN, self._bottom + _MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
                f'width="{width:.0f}" height="{height:.0f}" font-family="ui-monospace,monospace">',
                f"<title>{escape(self._title, quote=False)}</title>",
                '<rect width="100%" height="100%" fill="#fff"/>',
                *self._parts,
                "</svg>",
            ]
        )

    def _grow(self, right: float, bottom: float) -> None:
        self._right, self._bottom = max(self._right, right), max(self._bottom, bottom)


def _words(x: float, y: float, text: str, size: int, anchor: str, ink: str, bold: bool) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{ink}"{weight}>'
        f"{escape(text, quote=False)}</text>"
    )
