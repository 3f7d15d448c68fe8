"""Simulators of MAPA and Synergy, and the programs as released, to reproduce both papers."""
