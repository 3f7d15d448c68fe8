"""Decides with which CPU limits the operator measures the throughput of a running pod."""
