"""Decides about GPUEnsembles: which members train now, with how many GPUs, on which nodes."""
