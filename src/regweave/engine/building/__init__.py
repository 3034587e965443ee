"""From a choice of pieces to a session.

building             replaces pieces, lets onnxruntime optimise the rest (`optimiser`), opens the session
blocking             keeps images blocked between convolutions; `views_between`: what that leaves over
stand_ins            native operators for what onnxruntime does between native ones;
                     `blocked_convolutions`: such of its convolutions
joining              native nodes with nothing foreign between them as one; `joined` is their operator
"""

__all__: list[str] = []
