"""The node's GPUs: NVML, topology, health and XIDs."""
