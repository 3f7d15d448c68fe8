"""The controller: watches GPUJobs, reads their state, calls the decision and writes its results."""
