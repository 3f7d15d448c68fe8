"""Runs an ensemble of training jobs whose speed is known, and compares it with simple ways."""
