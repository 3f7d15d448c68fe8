"""Computes the training steps per second of a container from its counts of steps."""
