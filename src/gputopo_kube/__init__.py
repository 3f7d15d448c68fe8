"""Clients of the Kubernetes API, their errors, object kinds, pods, reflector and probe server.

The components and the command line use this package. No other package imports a Kubernetes client
library.
"""
