"""``gputopo sc17``: simulate jobs that slow each other down on the sockets of machines."""
