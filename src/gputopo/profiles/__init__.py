"""What the samples of a workload show: facts with confidence intervals, and a profile's status."""
