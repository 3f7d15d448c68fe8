"""Reads the hardware counters of this node's GPUs, and remembers which of them can be read."""
