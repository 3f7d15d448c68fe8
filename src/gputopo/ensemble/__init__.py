"""How many GPUs each member of an ensemble gets, and on which nodes (FLEET)."""
