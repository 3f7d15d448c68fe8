"""Random pods that share GPUs beside pods with whole GPUs, under kills of every part."""
