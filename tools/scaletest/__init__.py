"""Measures how fast pods are placed on a thousand nodes that kwok simulates."""
