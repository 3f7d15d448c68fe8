"""Mechanisms of the Synergy paper, used only to compare gputopo with them."""
