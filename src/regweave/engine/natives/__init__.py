"""Native operators: of pieces, and of what stands between them.

native          an operator with its kernel, and what those of this folder share
natives         makes the operator of a piece, plain or blocked, and keeps it
counted         chains and element-wise runs, whose positions are counted at each call
depthwise       convolutions of blocked images; `enlarged`: runs that enlarge an input
blocked_images  means and joins of blocked images; `pooling` and `reordering` in onnxruntime's place
plain           what lies between plain products: `linewise` reductions, `moving` of elements, `views` that
                move none, `pairing` of matrices, and what is a piece when it stands `alone`
"""

__all__: list[str] = []
