"""Jobs of an experiment: starts them, and reads amounts, restarts and rates."""

from learntest.bench import Bench
from learntest.manifests import Run
from resizetest import amounts, manifests
from resizetest.amounts import Amount
from resizetest.manifests import Sizing
from resizetest.timeline import Timeline


def start(bench: Bench, *jobs: tuple[Run, Sizing]) -> None:
    """Create GPUJobs one after another, each when the pod of the former one runs."""
    for run, sizing in jobs:
        submit(bench, run, sizing)
        bench.await_run(run.name)


def submit(bench: Bench, run: Run, sizing: Sizing) -> None:
    """Create a GPUJob."""
    bench.client.create(bench.jobs, manifests.job(run, sizing, bench.installed.trainer_image))


def limits_of(bench: Bench, job: str) -> Amount:
    """Return the limits that are in effect for the pod of a GPUJob; 0 without a pod."""
    pod = bench.pod_of(job)
    return amounts.read(pod).limits if pod else Amount()


def is_running(bench: Bench, pod: str) -> bool:
    """Return whether a pod runs."""
    found = bench.client.get(f"{bench.pods}/{pod}")
    return bool(found["status"].get("phase") == "Running")


def counted(timeline: Timeline) -> Amount:
    """Return what kube-scheduler counts for all pods of the node now."""
    total = Amount()
    for pod in timeline.moments[-1].pods.values():
        total = total.plus(pod.counted)
    return total


def check_restarts(bench: Bench, timeline: Timeline) -> None:
    """Report the pods of the experiment's namespace that restarted."""
    own = {
        name: starts
        for name, starts in timeline.restarted().items()
        if name.startswith(f"{bench.namespace}/")
    }
    bench.seen["pods restarted"] = len(own)
    for name, starts in own.items():
        bench.finding("pods restarted", f"{name}: started at {', '.join(starts)}")
