"""Sizing: choose which jobs run now, on which servers, with which CPUs and memory (Synergy)."""
