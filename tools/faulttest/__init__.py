"""Cause one fault at a time on the local cluster, and report its effect on pods and GPUs."""
