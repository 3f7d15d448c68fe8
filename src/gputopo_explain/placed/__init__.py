"""Explains the placement of a pod: why it has its GPUs, and what other GPUs would have cost."""
