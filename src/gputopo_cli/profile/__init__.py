"""``gputopo profile``: shows the GPUProfiles of a cluster, with their facts and samples."""
