"""Decides CPUs and memory of a node's running pods (Synergy, sections 3 and 4). Pure functions."""
