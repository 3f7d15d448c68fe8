"""``gputopo simulate`` and ``gputopo compare``: run job lists under placement policies."""
