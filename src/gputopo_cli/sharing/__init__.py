"""``gputopo sharing``: predict and simulate jobs that share one GPU."""
