"""Map a job graph to the GPUs of a cluster by dual recursive bi-partitioning (Amaral et al.)."""
