"""Simulate MAPA: jobs run on GPU sets of nodes. The links between GPUs affect the run times."""
