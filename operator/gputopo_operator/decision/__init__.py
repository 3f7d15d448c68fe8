"""The decision: from the state of a GPUJob to the writes that it needs. No I/O."""
