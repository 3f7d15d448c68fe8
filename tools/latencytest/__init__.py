"""Measures how long pods and Jobs take from their creation until they run."""
