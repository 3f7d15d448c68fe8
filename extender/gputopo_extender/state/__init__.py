"""The extender's knowledge of nodes and pods: the ledger of GPUs and its parts."""
