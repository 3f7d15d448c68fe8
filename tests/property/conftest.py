"""How long the search for counterexamples may take: the machines are shared and noisy."""

from hypothesis import HealthCheck, settings

settings.register_profile("gputopo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gputopo")
