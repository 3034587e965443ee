"""Convolutions, and regions of pieces on images that follow one another, as operators prepared by size.

`regional` makes the operator. `layers` are kernels and weights for all sizes; for one size there is a `plan`:
where each tensor lies, and one step after the other (`preparing`), band by band where images are large
(`banded`). Kernels with rows apart become several without (`interleaved`).
"""

__all__: list[str] = []
