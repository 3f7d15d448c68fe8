"""A pod whose CPUs are measured, without a cluster: kubelet, agent and clock of one node."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gputopo.api.profile import Sample
from gputopo.api.profiling import CpuAmounts, ProfilingState
from gputopo.profiling.decide import next_step
from gputopo.profiling.model import (
    Done,
    ProfiledPod,
    ProfilingSituation,
    Resize,
    Restore,
    Step,
    Wait,
)
from gputopo.runtime.times import timestamp

START = datetime(2026, 1, 1, tzinfo=UTC)
UID = "uid-train"
GUARANTEED = CpuAmounts(request=4000, limit=4000)
SAMPLE_SECONDS = 100


def saturating(milli_cpu: int) -> float:
    """Return the steps per second of a job that needs 3 CPUs."""
    return min(milli_cpu, 3000) / 100


def sample(milli_cpu: int | None, rate: float = 10.0, at: int = 0, **fields: Any) -> Sample:
    """Return a sample that ended ``at`` seconds after the start."""
    values: dict[str, Any] = {
        "pod_uid": UID,
        "container": "main",
        "time": timestamp(START + timedelta(seconds=at)),
        "seconds": 60,
        "source": "SDK",
        "micro_steps_per_second": round(rate * 1e6),
        "ci_permille": 10,
        "gpu_model": "Tesla V100",
        "gpus": 1,
        "milli_cpu": milli_cpu,
    }
    return Sample.model_validate(values | fields)


@dataclass
class ProfiledWorld:
    """One pod, its node and its agent.

    The agent takes a sample ``sample_seconds`` after the last change of the pod's limit.

    Attributes:
        rate: steps per second by CPU limit in thousandths; 0 stands for a stopped job.
        state: the annotation, which is all that an operator stores.
        limits: the limit of every resize, in order.
    """

    cpu: CpuAmounts = GUARANTEED
    rate: Callable[[int], float] = saturating
    available: int = 8000
    share: int = 0
    waiting: tuple[int, ...] | None = ()
    budget_seconds: int = 3600
    profile: tuple[Sample, ...] | None = ()
    neighbours: tuple[str, ...] = ()
    pod: dict[str, Any] = field(default_factory=dict)
    state: ProfilingState | None = None
    samples: list[Sample] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    problem: tuple[str, str] | None = None
    rejection: str = ""
    seconds: int = 0
    changed: int = 0
    sample_seconds: int = SAMPLE_SECONDS

    def situation(self) -> ProfilingSituation:
        """Return what an operator reads now."""
        problem, text = self.problem or (None, "")
        cpu = self.cpu
        pod = ProfiledPod(UID, "main", 1, cpu, cpu.limit, problem, text, state=self.state)
        return ProfilingSituation(
            now=START + timedelta(seconds=self.seconds),
            pod=replace(pod, **self.pod),
            budget_seconds=self.budget_seconds,
            own=tuple(self.samples),
            profile=self.profile,
            available_milli_cpu=self.available,
            share_milli_cpu=self.share,
            waiting_milli_cpu=self.waiting,
            rejection=self.rejection,
        )

    def step(self) -> Step:
        """Decide once and carry it out."""
        step = next_step(self.situation())
        if not isinstance(step, Wait):
            self.state = step.state
        if isinstance(step, Resize | Restore):
            self.resize(step.state.target)
        return step

    def resize(self, cpu: CpuAmounts) -> None:
        self.cpu, self.changed, self.problem = cpu, self.seconds, None
        self.limits.append(cpu.limit)

    def run(self, seconds: int) -> None:
        """Let time pass until the agent takes its next sample, or for this time."""
        due = self.changed + self.sample_seconds
        rate = self.rate(self.cpu.limit)
        if self.seconds < due <= self.seconds + seconds and rate:
            seconds = due - self.seconds
            taken = sample(self.cpu.limit, rate, at=due, socket_neighbours=list(self.neighbours))
            self.samples.append(taken)
        self.seconds += seconds

    def until_wait(self) -> Wait:
        """Carry out steps until one waits."""
        for _ in range(4):
            step = self.step()
            if isinstance(step, Wait):
                return step
        raise AssertionError("the steps never wait")

    def until_restored(self) -> ProfilingState:
        """Let time pass until the measurement has ended; return its state."""
        for _ in range(200):
            step = self.step()
            if isinstance(step, Done):
                assert step.state.restored
                return step.state
            if isinstance(step, Wait):
                assert step.seconds is None or step.seconds > 0
                self.run(int(step.seconds or 10))
        raise AssertionError(f"the measurement never ends: {self.state}")
