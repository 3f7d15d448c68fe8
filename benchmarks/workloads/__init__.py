"""Simulated workloads with known properties: the truth against which facts are checked."""
