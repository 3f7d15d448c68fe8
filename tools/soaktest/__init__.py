"""Create and delete GPU pods on the local cluster while its parts are killed; count errors."""
