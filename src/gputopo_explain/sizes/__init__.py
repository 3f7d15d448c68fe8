"""Explains the CPU and memory of the running pods that gputopo sizes."""
