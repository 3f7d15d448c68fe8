"""Simulators of MAPA and Synergy, for the command line, and what reproduces both papers."""
