"""Sends requests to the Kubernetes API, lists and watches objects, and parses pods.

The package also has what several programs need: the HTTP server for kubelet's probes, signals of
changes, threads and state files. The components and the command line use the package. No other
package imports a Kubernetes client library.
"""
