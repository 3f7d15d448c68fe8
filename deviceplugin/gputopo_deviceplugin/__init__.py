"""The node agent: publishes the topology, serves kubelet and reports allocations."""
