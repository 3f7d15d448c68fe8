"""Job lists run against nodes by the same policies that place pods."""
