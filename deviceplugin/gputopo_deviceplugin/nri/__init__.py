"""Sets the CPUs of containers with GPUs, as a plugin of the container runtime (NRI)."""
