"""Derives facts about a workload from its samples, and the status of its GPUProfile from facts."""
