"""Sends requests to the Kubernetes API, lists and watches objects, and parses pods.

The package also has the HTTP server for kubelet's probes. The components and the command line use
the package. No other package imports a Kubernetes client library.
"""
