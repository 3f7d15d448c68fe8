"""Simulators of two papers: MAPA chooses the GPUs of jobs, Synergy their CPUs and memory."""
