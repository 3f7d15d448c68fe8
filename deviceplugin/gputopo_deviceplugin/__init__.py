"""The agent on each GPU node: publishes the GPUTopology and gives the chosen GPUs to containers."""
