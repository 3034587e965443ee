"""Work between convolutions on images in blocks of channels, each as wide as a vector.

`reorders` make blocks of planes and planes of blocks, `joins` put images together along their channels.
Between: `depthwise` convolutions, `pools` of windows, `means` of planes, runs with an input that is enlarged
(`enlarging`). `rows` divides the work of those that go by rows of results.
"""

__all__: list[str] = []
