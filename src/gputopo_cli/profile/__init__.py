"""``gputopo profile``: what is known of the workloads of a cluster."""
