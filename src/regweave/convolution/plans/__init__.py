"""What is decided about a convolution on a device, before anything is written or run.

`plan` is what it says and what follows from it. The `planner` takes the cheapest of what `tiles` says would
fit, by `costs`; `reasons` says why it is that one. `native` says in the same words what this processor's own
kernels do.
"""

__all__: list[str] = []
