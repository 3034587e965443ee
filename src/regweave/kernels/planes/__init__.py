"""Work between convolutions on images of planes, of any size, plane by plane.

`loops` is what such kernels share; `kernel` chooses among them and has those that move pixels. `windows` find
the largest of a neighbourhood, `taps` add up products that were made on a smaller image.
"""

__all__: list[str] = []
