"""The simulated NVML: build of the C library, and its data file ``topology.conf``."""
