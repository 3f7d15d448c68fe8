"""The soak of ``tools/resize``: its load, and a judge that shares no code with the decisions."""
