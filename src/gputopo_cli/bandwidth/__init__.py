"""``gputopo bandwidth``: list bandwidth models and fit one to measurements."""
