"""The authors' released simulator (msr-fiddle/synergy, 1bb2bed), to reproduce its results.

Unlike :mod:`gputopo.sizing`, the simulator has only two speeds of a job: its speed with the demand
and its speed with the proportional share. It places jobs GPU by GPU and skips jobs that do not fit.
``docs/simulate/synergy.md`` lists the differences from the paper's text.
"""
