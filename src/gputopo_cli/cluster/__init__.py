"""Commands that read a cluster: ``gputopo who-has`` and ``gputopo doctor``."""
