"""Reports of the agent: status of the GPUTopology, events."""
