"""The node agent: topology, device plugin and observation."""
