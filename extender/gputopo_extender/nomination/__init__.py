"""Nominates nodes for waiting pods, so that kube-scheduler tries these nodes first."""
