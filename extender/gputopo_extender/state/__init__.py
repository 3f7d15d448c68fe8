"""What the extender knows of nodes and pods: the ledger and its parts."""
