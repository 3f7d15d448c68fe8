"""Bandwidth of GPU sets: aggregate, effective (by several models) and preserved."""
