"""The command that serves the page: ``gputopo web``."""
