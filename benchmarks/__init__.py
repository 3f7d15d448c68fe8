"""Measurements of the cost of gputopo: ``python -m benchmarks`` (see README.md)."""
