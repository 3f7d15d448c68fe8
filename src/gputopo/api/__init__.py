"""What travels through the Kubernetes API: names, CRD models and pod annotations.

Models of bytes: this package imports nothing else of gputopo.
"""
