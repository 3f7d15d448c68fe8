"""Run jobs whose CPUs and memory gputopo decides, and check that it keeps its promises."""
