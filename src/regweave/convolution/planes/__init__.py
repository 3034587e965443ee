"""Convolutions of images of planes by this processor's own kernel (`kernels/convolution/`).

choice       form, tile, strips and bands; what it asks:
form         where rows are read from: the image, strips of rearranged rows, or of transformed ones
shapes       tiles by what a tap of them takes; `pairing`: rows of results two at a time; `rolled`: bands
             that are gone through from top to bottom
small_maps   whether a small map lies in `folds`, several bands side by side
strips       how large strips and bands are
chosen       the outcome, the memory that it wants, the parts that it allows
tables       what the kernel walks, made for a shape; packed weights
native       all of it as machine code to be called
"""

__all__: list[str] = []
