"""Throughput of a job: steps per second, measured from the steps that its container counts."""
