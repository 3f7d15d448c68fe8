"""Simulator of the SC '17 paper (Amaral et al.): GPU jobs that slow each other down on sockets."""
