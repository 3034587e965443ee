"""From a file to a `Model`: every name known, every size checked, weights left where they lie.

order        nodes in an order that can run, with unique names
external     weights in files of their own
constants    what is known before the model runs, evaluated when somebody asks
claims       what the model says of itself, checked
inference    types and sizes by ONNX's own inference
model        what has been read
reading      the call that does all of this
"""

__all__: list[str] = []
