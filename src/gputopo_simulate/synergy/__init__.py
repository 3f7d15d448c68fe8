"""Simulate Synergy: queues of training jobs on servers with GPUs, CPUs and memory."""
