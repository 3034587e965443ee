"""Devices: assemble, load and run what the planners made.

`cpu` assembles in this process and finds code on disk; `onnxruntime` makes operators of such code. `opencl`
compiles and runs OpenCL C; `cuda` and `hip` compile for GPUs without one, and `hip` runs where there is one;
`emulator` runs AMD's kernels anywhere. `compiled_code` counts instructions, `launch` checks grids and
arguments.
"""

__all__: list[str] = []
