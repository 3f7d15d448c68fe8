"""Who has which GPU: the scheduler's books beside kubelet's. Pure."""
