"""The authors' released simulator (socal-ucr/MAPA, 15e58ab), to reproduce its figures.

The simulator has its own PCIe weight, queue, order of scores and undocumented thresholds.
``docs/simulator.md`` lists the differences from :mod:`gputopo.placement`.
"""
