"""The ``gputopo`` command: topologies, placements, simulations and fits on the terminal."""
