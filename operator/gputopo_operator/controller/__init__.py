"""Watches GPUJobs, reads their state, calls the decision and carries out its writes."""
