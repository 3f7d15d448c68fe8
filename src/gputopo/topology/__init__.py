"""What a node's GPUs are and how they are linked."""
