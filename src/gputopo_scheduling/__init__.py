"""Decides where the GPUs of a pod fit, and why they do not fit on other nodes. Pure functions.

The extender uses the package for its verbs. The command line uses it to explain a placement, and to
show where a pod would be placed now. All functions take Kubernetes objects in the form that
``gputopo_kube`` parses, or the core's topologies and requests.
"""
