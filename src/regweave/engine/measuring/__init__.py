"""What nodes and models take, on machines whose clock drifts and where others work as well.

`profiling` is onnxruntime's own profile, `undisturbed` what is left of it without what others took, and
`attribution` says which nodes stand for which piece. `racing` compares two ways in turns.
"""

__all__: list[str] = []
