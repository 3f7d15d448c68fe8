"""Explains decisions: why a pod has its GPUs, why it is pending, what would happen. No I/O.

All functions take Kubernetes objects as documents and return dataclasses. The command line prints
the dataclasses as tables and as JSON, and the web page renders the same dataclasses, so both show
the same facts.
"""
