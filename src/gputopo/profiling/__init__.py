"""Measuring on purpose: the throughput of a running pod with several numbers of CPUs."""
