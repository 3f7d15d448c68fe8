"""Computes the aggregate, the effective and the preserved bandwidth of GPU sets."""
