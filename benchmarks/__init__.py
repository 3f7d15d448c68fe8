"""What gputopo costs, measured: ``python -m benchmarks`` (see README.md)."""
