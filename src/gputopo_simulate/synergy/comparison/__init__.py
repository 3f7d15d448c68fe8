"""Mechanisms of the Synergy paper that gputopo is compared with; no scheduler uses them."""
