"""Nodes that work on one element at a time, as what a kernel does to it in a register.

unary        operators of one tensor, a table
cursor       the tensor where a walk stands: its shape, its channels' axis
breakers     why a node is no element-wise work
steps        one node as a step
polynomials  a normal form for activations that are written out; `activations` compares with known ones
gates        several nodes that are one activation together
folding      steps as the stages of a kernel, scales folded into weights
"""

__all__: list[str] = []
