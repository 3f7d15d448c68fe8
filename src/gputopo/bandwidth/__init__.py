"""Bandwidth of GPU sets: sum of the links of a job, prediction for the job, sum of free links."""
