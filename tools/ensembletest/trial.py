"""Trains five models in each way on a cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from ensembletest.members import TrueMember, gpu_job, manifest, true_rate
from ensembletest.observe import Observer, gpus_of_pod, rates_table
from ensembletest.ways import Outcome, Run, Way, gpus_each, run_of
from showcase.install import Installed
from showcase.kubectl import Object, wait_for

_NAME = "search"


@dataclass(frozen=True, slots=True)
class Trial:
    """Trains the members on a cluster.

    Attributes:
        most_gpus: GPUs that a way may use at one time.
        seconds: time limit for one way.
        say: gets lines about the progress.
    """

    installed: Installed
    members: Sequence[TrueMember]
    most_gpus: int
    seconds: float
    say: Callable[[str], None]

    def carry_out(self, way: Way) -> Outcome:
        """Train all members; their namespace is removed afterwards."""
        kubectl, namespace = self.installed.kubectl, f"ensemble-{way}"
        kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        began = datetime.now(UTC)
        try:
            if way is Way.ENSEMBLE:
                self._train_together(namespace)
            else:
                self._train(way, namespace)
            return Outcome(way, self.most_gpus, self._runs(namespace, began))
        finally:
            kubectl.run("delete", "namespace", namespace)

    def _train_together(self, namespace: str) -> None:
        image = self.installed.trainer_image
        spec = {"maxGPUs": self.most_gpus, "itemsPerEpoch": 1}
        self._create(manifest(_NAME, self.members, image, **spec), namespace)
        search = Observer(self.installed.kubectl, namespace, _NAME)
        truth = partial(true_rate, self.members)
        reasons: list[str] = []

        def is_done(status: Object) -> bool:
            plan = status.get("plan") or {}
            if plan.get("reason") not in {None, *reasons[-1:]}:
                reasons.append(plan["reason"])
                self.say(f"plan: {plan['reason']}")
                self.say("\n".join(rates_table(status, truth)))
            return status.get("phase") in {"Succeeded", "Failed"}

        status = search.wait("the ensemble has ended", is_done, self.seconds)
        self.say("\n".join(rates_table(status, truth)))
        if status["phase"] != "Succeeded" or search.twice or search.most_gpus > self.most_gpus:
            raise TimeoutError(
                f"ensemble: {status['phase']}, twice: {search.twice}, GPUs: {search.most_gpus}"
            )

    def _train(self, way: Way, namespace: str) -> None:
        gpus = gpus_each(way, self.most_gpus, len(self.members))
        for member in self.members:
            self._create(gpu_job(member, self.installed.trainer_image, gpus), namespace)
            if way is Way.ONE_AFTER_THE_OTHER:
                self._wait_complete(member.name, namespace)
        for member in self.members:
            self._wait_complete(member.name, namespace)

    def _create(self, document: Object, namespace: str) -> None:
        metadata = {**document["metadata"], "namespace": namespace}
        self.installed.kubectl.create({**document, "metadata": metadata})

    def _wait_complete(self, name: str, namespace: str) -> None:
        def is_complete() -> bool:
            status = self.installed.kubectl.get("gpujob", name, namespace).get("status") or {}
            conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
            return conditions.get("Complete") == "True"

        wait_for(f"{name} is complete", is_complete, timeout_s=self.seconds, interval_s=0.5)

    def _runs(self, namespace: str, began: datetime) -> list[Run]:
        pods = self.installed.kubectl.list("pods", namespace)
        runs = [run_of(pod, began, gpus_of_pod(pod)) for pod in pods]
        return sorted(runs, key=lambda run: (run.start, run.member))
