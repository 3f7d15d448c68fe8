"""What a test of a scenario of ``tools/faults`` is given."""

from collections.abc import Callable

from faulttest.bench import Bench
from faulttest.scenario import Options, Outcome

CarryOut = Callable[[Callable[[Bench, Options], None], Options], Outcome]
