"""The node topology: the GPUs of one node and the link between each pair."""
