"""``gputopo profile``: show measured speeds of workloads, and what the speeds depend on."""
