"""When several jobs should share one GPU: prediction, decision and check by measurement."""
