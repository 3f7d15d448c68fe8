"""What hardware counters show of a job: who communicates, how much, and the load of its GPUs."""
