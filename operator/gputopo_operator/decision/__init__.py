"""Decides which writes a GPUJob needs, from the state of the GPUJob. No I/O."""
