"""``gputopo place``: choose GPUs of one node for one job."""
