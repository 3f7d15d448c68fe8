"""What the page shows, computed from objects of the cluster; no I/O."""
