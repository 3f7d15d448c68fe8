"""Queues of training jobs on a cluster whose CPUs and memory are dealt out by sensitivity."""
