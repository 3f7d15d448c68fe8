"""What a cluster shows to people: users of GPUs, pictures; pure, for command line and page."""
