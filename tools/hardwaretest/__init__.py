"""Runs gputopo's NVML, counter and MPS parts on a real GPU, without a cluster.

Every other test uses simulated GPUs. This program shows on a machine with an NVIDIA GPU what the
simulation cannot: what NVML reports, which counters can be read, how the real MPS behaves, and
whether sharing pays as predicted.
"""
