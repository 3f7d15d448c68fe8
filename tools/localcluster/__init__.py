"""A real Kubernetes cluster of several nodes on one Linux machine, without Docker or a registry.

The control plane runs as plain processes; each node is a set of namespaces (mount, network, uts,
ipc, pid) with its own containerd, kubelet and kube-proxy, and with stand-ins for GPUs.
`docs/start/local-cluster.md` is the guide for users.
"""
