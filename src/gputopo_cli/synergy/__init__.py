"""``gputopo synergy``: simulate the sizing of CPUs and memory."""
