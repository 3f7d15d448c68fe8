"""The Kubernetes boundary of gputopo: client, errors, resources, reflector and probe server.

The components and the command line use it. Only this package imports a Kubernetes client library.
"""
