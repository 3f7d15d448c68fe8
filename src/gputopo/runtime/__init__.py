"""Parts that all programs of gputopo share: settings, log lines, error messages."""
