"""Simulate MAPA: jobs run on GPU sets of nodes, and the links between GPUs decide how long."""
