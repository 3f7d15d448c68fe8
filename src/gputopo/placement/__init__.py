"""Placement of one job: the GPUs of a node by policy, and the score of each node."""
