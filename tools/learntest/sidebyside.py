"""Runs training jobs on the sockets of one node, where they slow each other down."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.api.profile import GPUProfileStatus
from learntest import comparison, figure6, laws
from learntest.arrivals import Arrivals
from learntest.bench import Bench, steps_in
from learntest.comparison import Round, Seen
from learntest.manifests import Run
from showcase.kubectl import wait_for
from soaktest.client import Object, RejectedError, UnavailableError

_PORT = 9090
_FOLDER = "/var/lib/training-neighbours"
_START_SECONDS = 2.0
_FACTS_SECONDS = 15.0
"""The extender uses new facts after 10 s."""

_MEASURED_SECONDS = 12.0
"""Shorter than a sample, so that the comparison adds nothing to what is known."""


class SideBySide:
    """Jobs on one node.

    Attributes:
        percents: by how much the law makes the first workload slower beside the second.
    """

    def __init__(
        self, bench: Bench, node: str, percents: Mapping[str, Mapping[str, float]]
    ) -> None:
        self._bench, self._node, self.percents = bench, node, percents
        self._started = 0

    def read(self, file: Path) -> None:
        """Write the GPUProfiles of an earlier run into the cluster."""
        self._bench.report(f"GPUProfiles from {file}")
        for profile, status in json.loads(file.read_text()).items():
            self._bench.publish(profile, status)

    def write(self, file: Path, profiles: Sequence[str]) -> None:
        """Write the status of GPUProfiles into a file."""
        known = self.known(profiles)
        file.write_text(json.dumps({name: status.to_json() for name, status in known.items()}))

    def known(self, profiles: Iterable[str]) -> dict[str, GPUProfileStatus]:
        """Return the status of those of the GPUProfiles that exist."""
        found = {}
        for profile in profiles:
            try:
                found[profile] = self._bench.status_of(profile)
            except RejectedError:  # before the first sample
                continue
        return found

    def forget(self) -> None:
        """Delete all GPUProfiles, and wait until the extender does not use them any more."""
        self._bench.client.delete(self._bench.jobs.replace("gpujobs", "gpuprofiles"))
        time.sleep(_FACTS_SECONDS)

    def train(self, arriving: Arrivals, seconds: float) -> None:
        """Run a job of each workload for some seconds, with the policy of the installation."""
        runs = [self._run(workload, workload) for workload in arriving]
        self._bench.start(*runs)
        time.sleep(seconds)
        seen = self._measured(dict(zip(arriving, runs, strict=True)), 0)
        text = ", ".join(f"{name} on {each.sockets}" for name, each in seen.items())
        self._bench.report(f"trained: {text}")
        self._bench.end(run.name for run in runs)

    def alone(self, workload: str) -> float:
        """Return the seconds per step of a job that runs alone on the node."""
        return self.decided((workload,), "Preserve").seen[workload].step_seconds

    def decided(
        self, arriving: Arrivals, policy: str, *, plain: bool = False, profiles: str = ""
    ) -> Round:
        """Run a job of each workload under a policy, and measure all at the same time.

        Args:
            arriving: workloads in the order in which they start.
            policy: placement policy.
            plain: whether the jobs are plain pods, and not GPUJobs.
            profiles: first part of the names of the GPUProfiles.
        """
        runs = {
            workload: self._run(workload, f"{profiles}{workload}", policy=policy, plain=plain)
            for workload in arriving
        }
        self._bench.start(*runs.values())
        time.sleep(_START_SECONDS)
        seen = self._measured(runs, _MEASURED_SECONDS)
        shown = {workload: self._placement(run) for workload, run in runs.items()}
        self._bench.end(run.name for run in runs.values())
        return Round(arriving, policy, "Pod" if plain else "GPUJob", seen, shown)

    def _run(self, workload: str, profile: str, **more: Any) -> Run:  # noqa: ANN401 - fields of Run
        self._started += 1
        neighbours = {
            "folder": _FOLDER,
            "workload": workload,
            "sockets": self._sockets(),
            "percents": self.percents[workload],
        }
        law = laws.plain_law(self._started, port=_PORT, neighbours=neighbours)
        return Run(
            f"{workload}-{self._started}",
            law,
            self._node,
            gpus=figure6.GPUS,
            measuring=MeasuringRequest(profile=profile),
            folder=_FOLDER,
            **more,
        )

    def _sockets(self) -> dict[str, int]:
        gpus = self._bench.topologies[self._node]["gpus"]
        return {str(gpu["minor"]): gpu["numaNode"] for gpu in gpus}

    def _measured(self, runs: Mapping[str, Run], seconds: float) -> dict[str, Seen]:
        """Return what each job had, with its mean time of a step over some seconds."""
        pods = {workload: self._serving_pod(run) for workload, run in runs.items()}
        before = {workload: self._steps(pod) for workload, pod in pods.items()}
        time.sleep(seconds)
        found = {}
        for workload, pod in pods.items():
            steps, at = self._steps(pod)
            first, began = before[workload]
            sockets = comparison.sockets_in(self._bench.metrics_of(pod, _PORT))
            found[workload] = Seen(sockets, (at - began) / max(1, steps - first))
        return found

    def _steps(self, pod: str) -> tuple[int, float]:
        return steps_in(self._bench.metrics_of(pod, _PORT)), time.monotonic()

    def _serving_pod(self, run: Run) -> str:
        return wait_for(f"{run.name} serves metrics", lambda: self._pod_with_metrics(run))

    def _pod_with_metrics(self, run: Run) -> str | None:
        pod = self._bench.pod_of(run.name)
        if pod is None:
            return None
        name = str(pod["metadata"]["name"])
        try:
            self._bench.metrics_of(name, _PORT)
        except (UnavailableError, RejectedError):
            return None
        return name

    def _placement(self, run: Run) -> Object:
        """Return the annotation that explains the placement."""
        pod = self._bench.pod_of(run.name)
        annotations = pod["metadata"].get("annotations", {}) if pod else {}
        shown: Object = json.loads(annotations.get(PLACEMENT_ANNOTATION, "{}"))
        return shown
