"""Measures the training steps per second of this node's containers with GPUs."""
