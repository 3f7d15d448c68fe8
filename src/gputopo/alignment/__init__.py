"""Predicts the NUMA nodes that kubelet's topology manager takes, and the GPUs it then accepts."""
