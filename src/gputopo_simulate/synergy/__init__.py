"""Simulate Synergy: a queue of training jobs on servers with GPUs, CPUs and memory."""
