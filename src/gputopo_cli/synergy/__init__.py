"""``gputopo synergy``: simulate clusters that give each job CPUs and memory by its needs."""
