"""The operator: GPUJob and GPUProfile life cycle."""
