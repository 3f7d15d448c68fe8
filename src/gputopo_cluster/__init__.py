"""Which GPUs of a cluster are free, which pods use the others, and why a node offers none."""
