"""Break one thing at a time on the local cluster, and report what happened to pods and GPUs."""
