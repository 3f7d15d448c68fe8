"""Upgrades, rolls back and mixes versions of gputopo while pods use GPUs, and checks the pods."""
