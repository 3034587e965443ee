"""Convolutions of images of planes by this processor's own kernel (`kernels/convolution/`).

choice       form, tile and bands, by a cost model; what it asks:
strips       how large strips and bands are
folds        small maps, several bands side by side
rolled       bands that are gone through from top to bottom
pairing      rows of results two at a time
tables       what the kernel walks, made for a shape; packed weights
native       all of it as machine code to be called
"""

__all__: list[str] = []
