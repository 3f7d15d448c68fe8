"""Postpones pods that wait for a better placement, and lets kube-scheduler try them again."""
