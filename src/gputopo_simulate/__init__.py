"""Simulators of two papers: MAPA chooses GPUs for jobs, Synergy chooses their CPUs and memory.

To reproduce the papers' results, they can behave as the programs that the authors released.
"""
