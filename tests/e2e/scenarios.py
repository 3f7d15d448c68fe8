"""The arguments of a test that runs a scenario of ``tools/faults``."""

from collections.abc import Callable

from faulttest.bench import Bench
from faulttest.scenario import Options, Outcome

CarryOut = Callable[[Callable[[Bench, Options], None], Options], Outcome]
