"""Install gputopo on a cluster, run jobs on it, and read back what really happened."""
