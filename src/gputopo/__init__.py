"""GPU placement for Kubernetes: the pure core."""
