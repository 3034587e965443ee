"""What kernels are written with.

arguments    what a kernel is called with, as C and as Python fill it
geometry     tiles that fit a machine's registers, and how widths are cut into them
workspace    what the parts of a kernel share while it is written
division     a part's share of the work
places       where a tile of results goes
epilogue     what is done to results while they are in registers
"""

__all__: list[str] = []
