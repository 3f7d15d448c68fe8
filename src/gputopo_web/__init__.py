"""The page of ``gputopo web``: shows the GPUs, jobs and decisions of a cluster; changes nothing."""
