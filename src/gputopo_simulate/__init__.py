"""Simulators of the papers MAPA (GPUs of jobs) and Synergy (CPUs and memory of jobs)."""
