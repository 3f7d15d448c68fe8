"""The authors' released simulator (msr-fiddle/synergy, 1bb2bed), to reproduce its figures.

It has two speeds per job, its own first fit, and passes over jobs that do not fit;
:mod:`gputopo.sizing` does not (``docs/synergy.md`` lists the differences from the paper's text).
"""
