"""Reports the state of the agent: status of the GPUTopology, metrics and events."""
