"""The queue of jobs: which of them start now, in which order, and why the others wait."""
