"""A stand-in for NVML: the C library's build, and what its ``topology.conf`` says."""
