"""Types of the input and the results of :func:`gputopo.profiling.decide.next_step`."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from gputopo.api.profile import Sample
from gputopo.api.profiling import CpuAmounts, ProfilingState


@dataclass(frozen=True, slots=True)
class ProfiledPod:
    """The measured pod and its container with GPUs.

    Attributes:
        cpu: CPUs in the pod's spec; None if the request or the limit is missing.
        applied_milli_cpu: CPU limit that kubelet has applied; None if kubelet does not report it.
        problem: why kubelet has not applied the newest resize: ``Deferred`` or ``Infeasible`` if
            the node has too few CPUs now or always, or ``Error``; None if there is no problem.
        problem_message: kubelet's text of the problem.
        sized: whether gputopo sizes the pod outside of measurements; ``cpu`` is then its floor.
        most_milli_cpu: most CPUs that the pod may get; None if the user has not set it.
        obstacle: why the pod can never be measured, with the remedy; empty if it can.
        requested: whether the pod's annotations request to measure the effect of CPUs.
        deleting: the pod has a deletion time stamp.
        running: a container of the pod still runs.
    """

    uid: str
    container: str
    gpus: int
    cpu: CpuAmounts | None
    applied_milli_cpu: int | None = None
    problem: str | None = None
    problem_message: str = ""
    sized: bool = False
    most_milli_cpu: int | None = None
    obstacle: str = ""
    requested: bool = True
    deleting: bool = False
    running: bool = True
    state: ProfilingState | None = None

    @property
    def problem_text(self) -> str:
        """The problem with kubelet's message; empty if there is no problem."""
        return ": ".join(part for part in (self.problem, self.problem_message) if part)


@dataclass(frozen=True, slots=True)
class ProfilingSituation:
    """All that the decision of the operator's next step depends on.

    Attributes:
        now: time in UTC.
        budget_seconds: time limit of the measurement.
        own: the agent's samples of this pod.
        profile: samples in the pod's GPUProfile; None if the GPUProfile does not exist.
        available_milli_cpu: CPU of the node that no other container requests, and that is not kept
            for other pods that are measured; 0 if unknown.
        share_milli_cpu: share of the pod in the CPUs of its node; 0 if gputopo does not size it.
        waiting_milli_cpu: CPU request of each pod without a node; None if some are unknown.
        rejection: the API server's message if it has rejected the newest resize, else empty.
        is_restorable: whether the pod may get the CPUs back that its annotation names; see
            :func:`gputopo.profiling.finish.is_restorable`.
    """

    now: datetime
    pod: ProfiledPod
    budget_seconds: int
    own: tuple[Sample, ...] = ()
    profile: tuple[Sample, ...] | None = ()
    available_milli_cpu: int = 0
    share_milli_cpu: int = 0
    waiting_milli_cpu: tuple[int, ...] | None = ()
    rejection: str = ""
    is_restorable: bool = True


@dataclass(frozen=True, slots=True)
class Resize:
    """Next step: write ``state`` to the pod's annotation, then set the CPUs to ``state.target``."""

    state: ProfilingState


@dataclass(frozen=True, slots=True)
class Restore:
    """Next step: write ``state`` with the result, then give the container its original CPUs."""

    state: ProfilingState


@dataclass(frozen=True, slots=True)
class Done:
    """Next step: write ``state`` to the pod's annotation, and leave the CPUs unchanged."""

    state: ProfilingState


@dataclass(frozen=True, slots=True)
class Wait:
    """Next step: wait for an event, or for ``seconds`` if they are not None; then decide again.

    Attributes:
        reason: what the measurement waits for.
        warning: whether the operator records a Warning event with the reason.
    """

    seconds: float | None
    reason: str
    warning: bool = False


Step: TypeAlias = Resize | Restore | Done | Wait
