"""Changes the order of the queue in the installed chart."""

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import DEVNULL, run

from learntest.bench import Bench
from localcluster.settings import CLONE
from showcase.install import NAMESPACE
from showcase.kubectl import Kubectl

DEFAULT_MAX_SKIP_SECONDS = 3600

_OPERATOR = "deployment/gputopo-operator"


@contextmanager
def restored(bench: Bench) -> Iterator[None]:
    """Turn the queue off after the block."""
    try:
        yield
    finally:
        set_queue(bench, "")


def set_queue(bench: Bench, order: str, max_skip_seconds: int = DEFAULT_MAX_SKIP_SECONDS) -> None:
    """Set the order, and wait until the operator has it; without an order there is no queue."""
    bench.report(f"queue order {order or 'none'}, maxSkipSeconds {max_skip_seconds}")
    change_queue(bench.installed.kubectl, order, max_skip_seconds)


def change_queue(
    kubectl: Kubectl, order: str, max_skip_seconds: int = DEFAULT_MAX_SKIP_SECONDS
) -> None:
    """Upgrade the release, which also grants the rights that the queue needs, and wait."""
    values = f"operator.queue.order={order},operator.queue.maxSkipSeconds={max_skip_seconds}"
    command = [
        *(str(kubectl.binary.with_name("helm")), "upgrade", "gputopo"),
        *(str(CLONE / "charts" / "gputopo"), "--namespace", NAMESPACE),
        # A check that takes a right from the operator's role for a while owns its rules since then.
        *("--reuse-values", "--force-conflicts", "--set", values),
    ]
    run(command, check=True, stdout=DEVNULL, env=kubectl.environment)
    kubectl.run("rollout", "status", _OPERATOR, "-n", NAMESPACE, "--timeout=120s")
