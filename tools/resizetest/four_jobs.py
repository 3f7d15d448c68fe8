"""Four jobs on one node before and after Auto; then a fifth one arrives, and one leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gputopo.api.measuring import MeasuringRequest
from learntest import laws
from learntest.bench import Bench
from learntest.experiment import Options
from learntest.manifests import Run
from resizetest import jobs, learning, manifests, picture, steady, weight
from resizetest.kills import Kills
from resizetest.manifests import Sizing
from resizetest.recorder import Recorder, recording
from showcase.kubectl import wait_for
from soaktest.client import Object

_CAPACITY_MILLI_CPU = 1000
"""What the node has for sized pods. All nodes share the CPUs of one machine."""

_GPUS = {"decoder": 2, "plain": 1}
_MEASURED_MILLI_CPU = {"decoder": 250, "plain": 100}
_FLOOR_MILLI_CPU = {"decoder": 60, "plain": 30}
_FOUR = ("decoder-a", "decoder-b", "plain-c", "plain-d")
_FIFTH, _FIFTH_MILLI_CPU = "decoder-e", 150
_GUEST, _GUEST_MILLI_CPU = "guest", 100
_LEAVES = "decoder-b"
_MOST_MILLI_CPU = 420
"""Most that a decoder may have if the operator is killed. In the end the node then has exactly what
its pods may have, so the end state does not depend on the order of the resizes."""

_MEASURING_SECONDS = 1200
_MOST_SECONDS = 30.0
_KILLED_SECONDS = 300.0
_LEAST_SPEED = 0.95
"""Of the speed with the proportional share; rates on a shared machine differ by some percent."""


@dataclass(slots=True)
class _Story:
    """What all steps of the experiment need.

    Attributes:
        seconds: how long amounts stay unchanged before rates are reported.
        most: ``resources.max`` of the decoders.
        marks: seconds of the steps, for the picture.
    """

    bench: Bench
    node: str
    recorder: Recorder
    kills: Kills
    seconds: float
    most: int | None
    marks: dict[str, float] = field(default_factory=dict)

    def mark(self, text: str) -> None:
        """Mark the time of a step, and report it."""
        self.marks[text] = self.recorder.seconds
        self.bench.report(text)

    def rates(self, title: str, *names: str) -> dict[str, float]:
        """Return and report the rates of the jobs when nothing changes any more."""
        found = steady.steady_rates(self.bench, self.recorder, names, self.seconds)
        text = steady.describe(self.bench, found)
        self.bench.seen[title] = text
        self.bench.report(f"{title}: {text}")
        return found


def carry_out(bench: Bench, options: Options) -> None:
    """Learn the curves, then carry out the steps while all amounts of the node are recorded."""
    node = options.node or bench.node_with({"NVLink1", "NVLink2"}.issubset)
    with weight.preferred(bench.machines.cgroup(node)):
        measured = [_measured(kind, node) for kind in _GPUS]
        known = learning.learnt(bench, [measured], options.profiles)
        with recording(bench.client, bench.journal, node) as recorder:
            story = _Story(
                bench,
                node,
                recorder,
                Kills(bench, options.kills, options.seed),
                options.seconds or steady.QUIET_SECONDS,
                _MOST_MILLI_CPU if options.kills else None,
            )
            _fill(story)
            before = _before(story)
            _auto(story, known, before)
            _fifth(story)
            _leave(story)
    jobs.check_restarts(bench, recorder.timeline)
    bench.seen["operator killed"] = story.kills.done
    _draw(story)


def _draw(story: _Story) -> None:
    bench, recorder = story.bench, story.recorder
    file = bench.journal.log.with_suffix(".svg")
    limit = recorder.allocatable.milli_cpu
    picture.draw(recorder.timeline, bench.namespace, limit, story.marks, file)
    bench.seen["picture"] = str(file)


def _before(story: _Story) -> dict[str, float]:
    """Start four jobs, of which nothing is known: each gets its share."""
    story.mark("four jobs start")
    story.kills.soon()
    jobs.start(story.bench, *(_tuned(story, name) for name in _FOUR))
    return story.rates("with the proportional share", *_FOUR)


def _auto(story: _Story, known: Mapping[str, Object], before: Mapping[str, float]) -> None:
    """Publish what is known of the workloads; no job may become slower."""
    story.mark("their curves are known")
    for kind, status in known.items():
        story.bench.publish(f"{kind}-auto", status)
    story.kills.soon()
    limits = {name: jobs.limits_of(story.bench, name) for name in _FOUR}
    wait_for(
        "amounts change",
        lambda: limits != {name: jobs.limits_of(story.bench, name) for name in _FOUR},
        timeout_s=_KILLED_SECONDS,
    )
    after = story.rates("with Auto", *_FOUR)
    gains = {name: after[name] / rate for name, rate in before.items()}
    story.bench.seen["throughput relative to the share"] = "; ".join(
        f"{name} {gain:.3f}" for name, gain in gains.items()
    )
    story.bench.seen["mean of these"] = sum(gains.values()) / len(gains)
    for name, gain in gains.items():
        if gain < _LEAST_SPEED:
            story.bench.finding("slower than with its share", f"{name}: {gain:.3f}")


def _fifth(story: _Story) -> None:
    """Create a fifth job and a pod of the default scheduler, for which the node has no CPUs."""
    bench, began = story.bench, story.recorder.seconds
    image = bench.installed.workload_image
    story.mark("a fifth job and a guest arrive")
    bench.client.create(bench.pods, manifests.filler(_GUEST, story.node, _GUEST_MILLI_CPU, image))
    jobs.submit(bench, *_tuned(story, _FIFTH, _FIFTH_MILLI_CPU))
    story.kills.soon(2)
    bench.await_run(_FIFTH, _KILLED_SECONDS)
    seconds = story.recorder.seconds - began
    bench.seen["seconds until the fifth job runs"] = seconds
    wait_for("the guest runs", lambda: jobs.is_running(bench, _GUEST), timeout_s=_KILLED_SECONDS)
    bench.seen["seconds until the guest runs"] = story.recorder.seconds - began
    if not story.kills.done and seconds > _MOST_SECONDS:
        bench.finding("slow start on a full node", f"{seconds:.1f} s")
    story.rates("with five jobs", *_FOUR, _FIFTH)


def _leave(story: _Story) -> None:
    """Delete a job; the rest must get what it had."""
    bench, rest = story.bench, [name for name in (*_FOUR, _FIFTH) if name != _LEAVES]
    had = {name: jobs.limits_of(bench, name).milli_cpu for name in rest}
    began = story.recorder.seconds
    story.mark("one job leaves")
    bench.client.delete(f"{bench.jobs}/{_LEAVES}")
    story.kills.soon()
    wait_for(
        "the rest is raised",
        lambda: sum(jobs.limits_of(bench, name).milli_cpu for name in rest) > sum(had.values()),
        timeout_s=_KILLED_SECONDS,
    )
    bench.seen["seconds until the rest is raised"] = story.recorder.seconds - began
    story.rates("after one has left", *rest)
    _check_end(story, [name for name in rest if name.startswith("decoder")])


def _check_end(story: _Story, decoders: list[str]) -> None:
    """Report decoders that do not have in the end what they may have."""
    for name in decoders if story.most else ():
        found = jobs.limits_of(story.bench, name).milli_cpu
        if found != story.most:
            story.bench.finding("wrong end state", f"{name}: {found}m instead of {story.most}m")


def _fill(story: _Story) -> None:
    """Create a pod that requests all CPUs but those that the sized pods may use."""
    bench, recorder = story.bench, story.recorder
    free = recorder.allocatable.milli_cpu - jobs.counted(recorder.timeline).milli_cpu
    image = bench.installed.workload_image
    rest = manifests.filler("filler", story.node, free - _CAPACITY_MILLI_CPU, image)
    bench.client.create(bench.pods, rest)
    wait_for("the filler runs", lambda: jobs.is_running(bench, "filler"))


def _measured(kind: str, node: str) -> Run:
    """Return a run of the workload as docs/use/live-sizing.md recommends it."""
    request = MeasuringRequest(
        profile=kind, targets=("CPUs",), profiling_seconds=_MEASURING_SECONDS
    )
    milli_cpu = _MEASURED_MILLI_CPU[kind]
    return Run(f"measured-{kind}", _law(kind, 1), node, _GPUS[kind], milli_cpu, measuring=request)


def _tuned(story: _Story, name: str, milli_cpu: int | None = None) -> tuple[Run, Sizing]:
    kind, _, letter = name.partition("-")
    floor = milli_cpu or _FLOOR_MILLI_CPU[kind]
    request = MeasuringRequest(profile=f"{kind}-auto")
    run = Run(name, _law(kind, ord(letter)), story.node, _GPUS[kind], floor, measuring=request)
    return run, Sizing(most_milli_cpu=story.most if kind == "decoder" else None)


def _law(kind: str, seed: int) -> dict[str, Any]:
    """Return the law: a decoder is as fast as its GPUs with about 500m, and half with 250m."""
    if kind == "plain":
        return laws.plain_law(seed, port=steady.PORT)
    return laws.cpu_law(seed, seconds=0.1, workers=2, images=150) | {"port": steady.PORT}
