"""Utility of a placement: communication, interference and fragmentation (Amaral et al., SC '17)."""
