"""What the authors' released simulator does (socal-ucr/MAPA, 15e58ab), to reproduce its figures.

Nothing here schedules anything: it keeps that program's PCIe weight, queue, scoring orders and
hidden thresholds, which :mod:`gputopo.placement` has not (``docs/simulator.md`` lists them).
"""
