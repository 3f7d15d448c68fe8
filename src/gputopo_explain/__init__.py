"""Shows a cluster to people: who uses GPUs, why a pod has them or waits, what would happen. No I/O.

The functions take Kubernetes objects and return dataclasses or pictures. The command line prints
the dataclasses as tables and as JSON, and the web page renders the same dataclasses, so both show
the same facts.
"""
