"""Sensitivity of a job: how its speed depends on bandwidth, CPUs and memory."""
