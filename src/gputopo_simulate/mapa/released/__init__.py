"""The authors' released simulator (socal-ucr/MAPA, 15e58ab), to reproduce its results.

The simulator has its own PCIe weight, its own queue and tie-breaking, and undocumented thresholds.
``docs/studies/mapa.md`` lists the differences from :mod:`gputopo.placement`.
"""
