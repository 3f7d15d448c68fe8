"""Install gputopo on a cluster, run jobs on it, and read which GPUs they got."""
