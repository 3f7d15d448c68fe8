"""Time from creation to Running on the idle local cluster, with and without GPUs."""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles
from typing import NamedTuple

from latencytest import objects
from localcluster.settings import current_paths
from showcase import install
from showcase.kubectl import wait_for
from soaktest.client import Client
from soaktest.first_seen import FirstSeen
from soaktest.trial import trial, write

_NAMESPACES = "/api/v1/namespaces"
_BURST = 24
_GOAL = 1.1
_REST_SECONDS = 0.3
_LONGEST_SECONDS = 60.0


class Kind(NamedTuple):
    """What is created one at a time, and the kind without GPUs to which it is compared."""

    title: str
    make: Callable[[str, str], objects.Object]
    against: str = ""


_PODS = (
    Kind("plain pod", objects.plain_pod),
    Kind("GPU pod", objects.gpu_pod, "plain pod"),
)
_KINDS = (
    *_PODS,
    Kind("plain Job", objects.plain_job),
    Kind("GPUJob", objects.gpu_job, "plain Job"),
)


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    with trial():
        install.start_cluster()
        installed = install.install_chart()
        with Client(current_paths().kubeconfig) as client:
            try:
                client.create(_NAMESPACES, {"metadata": {"name": objects.NAMESPACE}})
                seconds = _single(client, installed.workload_image, options.times)
                bursts = _bursts(client, installed.workload_image, options.bursts)
            finally:
                client.delete(f"{_NAMESPACES}/{objects.NAMESPACE}")
        document = {
            "seconds": {title: _quantiles(found) for title, found in seconds.items()},
            "ratios": _ratios(seconds),
            "burst": {"pods": _BURST, "seconds": bursts},
        }
        write(options.output, document, table(seconds, bursts))
    return 0


def _single(client: Client, image: str, times: int) -> Mapping[str, list[float]]:
    """Return the seconds of each kind; the kinds take turns, and the first turn does not count."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    with FirstSeen(client, objects.PODS, _is_running) as running:
        for turn in range(times + 1):
            for kind in _KINDS:
                body, count = kind.make(f"one-{turn}", image), len(running) + 1
                began = time.monotonic()
                client.create(objects.COLLECTIONS[body["kind"]], body)
                ended = _running_since(running, count)
                if turn:
                    seconds[kind.title].append(ended - began)
                _remove(client, body)
    return seconds


def _bursts(client: Client, image: str, times: int) -> Mapping[str, list[float]]:
    """Return the seconds of the bursts of each kind of pod; the kinds take turns."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(times):
        for kind in _PODS:
            seconds[kind.title].append(_burst(client, image, kind))
    return seconds


def _burst(client: Client, image: str, kind: Kind) -> float:
    """Return the seconds until 24 pods of a kind, created at once, run."""
    bodies = [kind.make(f"burst-{number}", image) for number in range(_BURST)]
    with FirstSeen(client, objects.PODS, _is_running) as running:
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda body: client.create(objects.PODS, body), bodies))
        seconds = _running_since(running, _BURST) - began
    for body in bodies:
        client.delete(f"{objects.PODS}/{body['metadata']['name']}", gracePeriodSeconds="0")
    _wait_until_gone(client)
    return seconds


def _is_running(pod: objects.Object) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _running_since(running: FirstSeen, count: int) -> float:
    """Return when the last one of this many pods began to run.

    Raises:
        TimeoutError: they do not run in time.
    """
    times = running.wait(count, _LONGEST_SECONDS)
    if len(times) < count:
        raise TimeoutError(f"{len(times)} of {count} pods run")
    return times[-1]


def _wait_until_gone(client: Client) -> None:
    """Wait until no pod is left."""
    wait_for("all pods are gone", lambda: not client.get(objects.PODS)["items"], timeout_s=60)


def _remove(client: Client, body: objects.Object) -> None:
    """Delete an object and its pods, and wait until the cluster is idle again."""
    client.delete(f"{objects.COLLECTIONS[body['kind']]}/{body['metadata']['name']}")
    _wait_until_gone(client)
    time.sleep(_REST_SECONDS)


def _ratios(seconds: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return the time of each kind with GPUs relative to the one without."""
    found = {}
    for kind in _KINDS:
        if kind.against:
            own, other = _quantiles(seconds[kind.title]), _quantiles(seconds[kind.against])
            found[kind.title] = {name: own[name] / other[name] for name in own}
    return found


def _quantiles(seconds: Sequence[float]) -> dict[str, float]:
    return {"p50": median(seconds), "p99": quantiles(seconds, n=100)[-1]}


def table(
    seconds: Mapping[str, Sequence[float]], bursts: Mapping[str, Sequence[float]]
) -> list[str]:
    """Return the lines of the table: ``seconds`` of each kind, and those of its bursts."""
    ratios = _ratios(seconds)
    lines = [f"{'CREATED':<12}{'TIMES':>6}{'P50 S':>8}{'P99 S':>8}{'P50':>7}{'P99':>7}"]
    for title, found in seconds.items():
        own = _quantiles(found)
        line = f"{title:<12}{len(found):>6}{own['p50']:>8.2f}{own['p99']:>8.2f}"
        ratio = ratios.get(title)
        lines.append(f"{line}{ratio['p50']:>7.2f}{ratio['p99']:>7.2f}" if ratio else line)
    lines.append(f"P50 and P99 at the right: relative to the kind without GPUs; goal {_GOAL}")
    for title, found in bursts.items():
        times = " ".join(f"{each:.2f}" for each in found)
        lines.append(f"{_BURST} of {title} at once, until all run: {times} s")
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/latency", description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="of each kind (100)")
    parser.add_argument("--bursts", type=int, default=3, help="of 24 pods of each kind at once (3)")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
