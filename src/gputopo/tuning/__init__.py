"""Decides the CPUs and memory of running pods on one node (Synergy, sections 3 and 4). Pure."""
