"""A Kubernetes cluster of kind with simulated GPUs on one Linux machine.

On a machine with Docker, kind uses it and its published node image. On any other, Docker and the
node image are built without a registry, and the Docker daemon runs in namespaces of its own.
`docs/start/local-cluster.md` is the guide for users.
"""
