"""How long tests look for counterexamples: a short while, or very long when asked to."""

import os
from typing import Final

LONG: Final = bool(os.environ.get("GPUTOPO_LONG"))
