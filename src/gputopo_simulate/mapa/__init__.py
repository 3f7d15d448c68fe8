"""Simulate MAPA: jobs are placed on GPU sets of nodes, and links decide how long they run."""
