"""Node topologies from files: handwritten, recorded with ``nvidia-smi``, or saved from a cluster.

Only the command line and the tests use this package.
"""
