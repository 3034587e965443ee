"""Products that follow one another in one kernel, and products alone.

plan        what is decided first: panels, blocks of rows, where results between stages live
packing     weights in the order in which they are read
kernel      from a chain to its kernel, whose loop over blocks is one of two:
rows        rows of activations, and blocked images; `rowslots` are the numbers that it keeps
pixels      images of planes; `copies` brings a panel of pixels into scratch memory
stage       one product on one block, for either: its `scalars`, its loop over k (`products`), and the
            `rowloop` that finishes tiles with many operators
seven       products of halves with seven multiplications; `seventiles` are their routines
gemm        one product, its sizes known only when it runs
"""

__all__: list[str] = []
