"""The core of gputopo: computes GPU placements from topologies and requests, without I/O."""
