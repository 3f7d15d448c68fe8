"""Node topologies that do not come from a cluster: well-known servers, files, recordings.

The command line, the tools and the tests use this package; no component does.
"""
