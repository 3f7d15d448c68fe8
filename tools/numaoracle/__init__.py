"""kubelet's own topology manager as a program, to compare it with ``gputopo.alignment``."""
