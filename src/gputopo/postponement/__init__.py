"""Decides whether a job waits for a better placement, and which waiting job is first. No I/O."""
