"""Models: reading them, finding what can run natively in them, and replacing it.

    model = read_model("recogniser.onnx", dims={"width": 320})
    chains = [piece for piece in find_candidates(model) if piece.refusal is None]
    chains += find_convolutions(model, chains)
    rewritten = replace_pieces(model, [*chains, *find_pieces(model, chains)])

Nothing here knows hardware or runs a model: `read_model` imports and checks, `find_candidates` answers
which products follow one another and why others do not, `find_convolutions` those that are more than a
product, `find_pieces` divides the rest, `replace_pieces` writes the model in which each piece is one node.
Folders, in the order in which a model meets them:

    reading      a file becomes a `Model`, with symbolic `shapes` of its tensors
    discovery    nodes become pieces: products and convolutions with the work behind them, which
                 `elementwise` understands and `pieces` holds as values
    regions      pieces on images become one
    rewriting    every piece becomes one node

`attributes` reads the settings of nodes for all of them, `samples` fetches real models to try.
"""

from regweave.graphs.discovery.candidates import find_candidates
from regweave.graphs.discovery.convolutions import find_convolutions, recognise_window
from regweave.graphs.discovery.runs import find_pieces
from regweave.graphs.pieces.pieces import Link, Piece
from regweave.graphs.reading.model import Model
from regweave.graphs.reading.reading import read_model
from regweave.graphs.regions.regions import find_regions
from regweave.graphs.rewriting.rewriting import replace_pieces
from regweave.graphs.rewriting.spreading import SPREAD, Spread, spread, spreads

__all__ = [
    "SPREAD",
    "Link",
    "Model",
    "Piece",
    "Spread",
    "find_candidates",
    "find_convolutions",
    "find_pieces",
    "find_regions",
    "read_model",
    "recognise_window",
    "replace_pieces",
    "spread",
    "spreads",
]
