"""Measure training jobs whose speed is known, and compare what gputopo learns with the truth."""
