"""Simulate MAPA and Synergy, also as their authors' released programs, to reproduce the papers."""
