"""``gputopo doctor``: find what is wrong with an installation, and the remedy."""
