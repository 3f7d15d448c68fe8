"""Whether a job gains from bandwidth between its GPUs."""
