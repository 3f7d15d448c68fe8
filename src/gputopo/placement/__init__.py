"""Placement of one job: a policy chooses GPUs of each node, and each node gets a score."""
