"""What is wrong with an installation, and what to do: small checks over objects read once."""
