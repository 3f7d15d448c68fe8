"""Simulators of MAPA and Synergy. They can also act as the programs that the authors released."""
