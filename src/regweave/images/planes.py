"""Many results per pixel as pictures: what `regweave image` writes for a bank of filters.

    show_planes(responses)             each plane as 8 bits, 0 in the middle of grey
    contact_sheet(planes)              all planes in one picture, row by row

A plane is scaled so that its largest magnitude becomes black or white; a plane without negative numbers goes
from black to white. What is no finite number counts as zero.
"""

from __future__ import annotations

import math

import numpy as np

from regweave.errors import InputError
from regweave.images.taking import real_matrix

_GAP = 4


def show_planes(responses: np.ndarray) -> np.ndarray:
    """Responses [height, width, N] as N pictures [N, height, width] of 8 bits."""
    responses = np.asarray(responses)
    if responses.ndim != 3 or 0 in responses.shape:
        raise InputError(f"the shape is {list(responses.shape)}", expected="[height, width, planes]")
    shown = np.empty((responses.shape[2], *responses.shape[:2]), np.uint8)
    for n in range(len(shown)):
        plane = np.where(np.isfinite(responses[..., n]), responses[..., n], 0)
        most = float(np.abs(plane).max(initial=0)) or 1.0
        signed = bool((plane < 0).any())
        scaled = 127.5 + plane * (127.5 / most) if signed else plane * (255 / most)
        shown[n] = np.rint(scaled).astype(np.uint8)
    return shown


def contact_sheet(planes: np.ndarray) -> np.ndarray:
    """N pictures [N, height, width] side by side in about as many rows as columns, white lines between."""
    planes = real_matrix(planes, "planes") if not isinstance(planes, np.ndarray) else planes
    if planes.ndim != 3 or 0 in planes.shape:
        raise InputError(f"the shape is {list(planes.shape)}", expected="[planes, height, width]")
    count, height, width = planes.shape
    columns = min(count, max(1, round(math.sqrt(count * height / width))))
    rows = -(-count // columns)
    sheet = np.full((rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP), 255, np.uint8)
    for n, plane in enumerate(planes):
        top, left = n // columns * (height + _GAP), n % columns * (width + _GAP)
        sheet[top : top + height, left : left + width] = plane
    return sheet
