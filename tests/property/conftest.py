"""Examples may take long on a busy machine; what they find does not depend on it."""

from hypothesis import settings

settings.register_profile("gputopo", deadline=None)
settings.load_profile("gputopo")
