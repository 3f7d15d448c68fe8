"""The authors' released simulator (msr-fiddle/synergy, 1bb2bed), to reproduce its figures.

Unlike :mod:`gputopo.sizing`, it has only two speeds per job, its own kind of first fit, and passes
over jobs that do not fit. ``docs/synergy.md`` lists the differences from the text of the paper.
"""
