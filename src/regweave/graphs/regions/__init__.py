"""Pieces on images that follow one another, as one.

enlarging    which Resize nodes repeat pixels
regions      growing them until one tensor leaves
smaller      convolutions of enlarged images done before these are enlarged
bands        a few rows of every image at a time, while these are in a cache
"""

__all__: list[str] = []
