"""``gputopo topology``: load node topologies and show their links as text, JSON or a picture."""
