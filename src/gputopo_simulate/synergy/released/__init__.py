"""The authors' released simulator (msr-fiddle/synergy, 1bb2bed), to reproduce its figures.

Unlike :mod:`gputopo.sizing`, the simulator has two speeds per job, places jobs GPU by GPU and skips
jobs that do not fit. ``docs/synergy.md`` lists the differences from the paper's text.
"""
