"""``gputopo ensemble``: plan and simulate models that are trained together (FLEET)."""
