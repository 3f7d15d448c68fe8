"""Random pods under each policy of kubelet's topology manager, on nodes with two NUMA nodes."""
