"""Explains why a pod or GPUJob is pending: each node's reason, and what would have to end."""
