"""The kernels of a convolution plan as lane-level programs, their texts, and OpenCL running them.

kernel        the convolution: loops and tiles, whose sums of addresses are `steps`
reading       where a thread finds the words of the image
rearranging   the kernel that makes strips of rearranged rows
packing       weights as the kernels read them
emitting      the kernels as text; `hosting` puts a C program around it
running       the plan executed through OpenCL
"""

__all__: list[str] = []
