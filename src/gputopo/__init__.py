"""The core of gputopo: computes GPU placements from values, without I/O."""
