"""A job with all GPUs of a node, and small jobs that never leave all of them free."""

import itertools
import time
from collections.abc import Callable

from learntest.bench import Bench
from learntest.experiment import Options
from resizetest import queue_setting
from resizetest.queue_api import QueueApi
from resizetest.queue_definition import QueuedJob
from resizetest.queue_jobs import GPUS
from resizetest.queue_watch import QueueWatch

_ORDER = "SRTF"
_MAX_SKIP_SECONDS = 60
_SMALL_GPUS, _SMALL_SECONDS = 2, 15.0
_LARGE_SECONDS = 5.0
_WAITING = 3
"""Small jobs that wait at any time, so that one can start whenever GPUs become free."""

_PATIENT_SECONDS = 100.0
_LONGEST_SECONDS = 240.0
_START_AND_END_SECONDS = 20.0
"""Bound of what is added to the run time of a small job: image, pod, scheduler, two reports."""


def carry_out(bench: Bench, options: Options) -> None:
    """Start a large job without a limit of its wait, and then one with a limit."""
    node = options.node or max(bench.topologies)
    api = QueueApi(bench, node)
    with (
        queue_setting.restored(bench),
        QueueWatch(bench.client, bench.namespace, node) as watch,
    ):
        queue_setting.set_queue(bench, _ORDER)
        stream = _Stream(api, watch)
        stream.run_until(lambda: len(watch.starts) > GPUS // _SMALL_GPUS, _PATIENT_SECONDS)
        api.create(_large("patient"))
        stream.run_until(lambda: "patient" in watch.started(), _PATIENT_SECONDS)
        bench.seen[f"started within {_PATIENT_SECONDS:g} s without a limit"] = (
            "patient" in watch.started()
        )
        queue_setting.set_queue(bench, _ORDER, _MAX_SKIP_SECONDS)
        _require_start(bench, stream, watch, "patient")
        api.create(_large("large"))
        _require_start(bench, stream, watch, "large")
        _judge(bench, api, watch)
    bench.end(stream.created)


def _require_start(bench: Bench, stream: "_Stream", watch: QueueWatch, job: str) -> None:
    before = time.monotonic()
    stream.run_until(lambda: job in watch.started(), _LONGEST_SECONDS)
    if job not in watch.started():
        raise TimeoutError(f"not within {_LONGEST_SECONDS:g} s: {job} starts")
    bench.report(f"{job} started after {time.monotonic() - before:.0f} s")


def _judge(bench: Bench, api: QueueApi, watch: QueueWatch) -> None:
    waited = api.waited_seconds("large") or 0
    bound = _MAX_SKIP_SECONDS + _SMALL_SECONDS + _START_AND_END_SECONDS
    bench.seen[f"wait with maxSkipSeconds {_MAX_SKIP_SECONDS}, s"] = waited
    bench.seen["small jobs started"] = len(watch.starts) - 2
    bench.seen["most GPUs of the node that pods held"] = watch.most_gpus
    if waited > bound:
        bench.finding("starved", f"the large job waited {waited} s, more than {bound:g} s")
    if watch.most_gpus > GPUS:
        bench.finding("GPUs used twice", f"{watch.most_gpus} of {GPUS}")


def _large(name: str) -> QueuedJob:
    """Return a job with all GPUs that SRTF sorts behind every small job."""
    return QueuedJob(name, GPUS, _LARGE_SECONDS, expected_seconds=10_000)


class _Stream:
    """Creates small jobs, so that some always wait.

    Attributes:
        created: names of all jobs, also of the large ones.
    """

    def __init__(self, api: QueueApi, watch: QueueWatch) -> None:
        self.created = ["patient", "large"]
        self._api, self._watch = api, watch
        self._numbers = itertools.count()

    def run_until(self, reached: Callable[[], bool], seconds: float) -> None:
        """Continue until a state is reached, or for some seconds."""
        deadline = time.monotonic() + seconds
        while not reached() and time.monotonic() < deadline:
            waiting = {*self.created} - {*self._watch.started()} - {"patient", "large"}
            for _ in range(_WAITING - len(waiting)):
                name = f"small-{next(self._numbers)}"
                self._api.create(QueuedJob(name, _SMALL_GPUS, _SMALL_SECONDS, _SMALL_SECONDS))
                self.created.append(name)
            time.sleep(1)
