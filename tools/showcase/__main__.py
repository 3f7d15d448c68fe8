"""The demo: runs jobs on a real cluster and shows the GPUs of their containers."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import yaml

from gputopo.api.names import JOB_LABEL
from gputopo.topology.model import LinkKind
from localcluster.errors import ClusterError
from localcluster.settings import CLONE
from showcase import install
from showcase.install import PLATFORMS, Platform
from showcase.kubectl import Kubectl, KubectlError, Object, wait_for
from showcase.truth import ContainerGpus, read_containers

NAMESPACE = "gputopo-demo"
JOBS = ("gpujob-ring.yaml", "gpujob-insensitive.yaml", "gpujob-custom-edges.yaml")
JOBS_ON_THE_MESH = ("gpujob-ring.yaml", "gpujob-insensitive.yaml")


@dataclass(slots=True)
class Stages:
    """Seconds of each stage, reported during the work."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Report the start and the duration of a stage."""
        print(f"==> {name}", file=sys.stderr, flush=True)
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)
        print(f"    {name}: {self.seconds[name]} s", file=sys.stderr, flush=True)


def main() -> None:
    """Run the demo and leave the cluster up."""
    arguments = _parser().parse_args()
    try:
        _show(PLATFORMS["kind" if arguments.kind else "local"](), arguments.output)
    except (ClusterError, subprocess.CalledProcessError, KubectlError, TimeoutError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        command = "tools/kind" if arguments.kind else "tools/cluster"
        sys.exit(f"\ninterrupted; `{command} down` removes what was made")


def _show(platform: Platform, output: str) -> None:
    stages = Stages()
    with stages.stage("cluster"):
        install.start_cluster(platform=platform)
    with stages.stage("chart"):
        installed = install.install_chart(platform=platform)
    with stages.stage("jobs"):
        names = _run_jobs(installed)
    with stages.stage("reading back"):
        rows = [_row(installed.kubectl, name) for name in names]
    if output == "json":
        print(json.dumps({"jobs": rows, "seconds": stages.seconds}, indent=2))
    else:
        print("\n".join(_table(rows)))
        print(_what_next(stages, f"tools/{platform.command.name}"))
    if not all(row["agrees"] for row in rows):
        sys.exit("the sources of a container differ: see the table")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument(
        "--kind", action="store_true", help="on nodes of kind, in place of the local cluster's"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


def _run_jobs(installed: install.Installed) -> list[str]:
    """Create the example jobs again, wait until all run, and return their names."""
    kubectl = installed.kubectl
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kubectl.run("delete", "gpujobs", "--all", "-n", NAMESPACE, "--wait=true")
    wait_for("no pod of an earlier demo is left", lambda: not kubectl.list("pods", NAMESPACE))
    jobs = [_placed(_example(file), installed.workload_image) for file in JOBS]
    jobs += [
        _placed(_example(file), installed.workload_image, node=_mesh_node(kubectl))
        for file in JOBS_ON_THE_MESH
    ]
    kubectl.create(*jobs)
    names = [str(job["metadata"]["name"]) for job in jobs]
    for name in names:
        wait_for(f"GPUJob {name} runs", lambda name=name: _observed(kubectl, name))  # type: ignore[misc]
    return names


def _example(file: str) -> Object:
    document: Object = yaml.safe_load((CLONE / "examples" / file).read_text())
    return document


def _placed(job: Object, image: str, *, node: str | None = None) -> Object:
    """Return the example in the demo's namespace, with an image that the nodes have."""
    spec = job["spec"]["template"]["spec"]
    for container in spec["containers"]:
        container["image"] = image
    if node is not None:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        job["metadata"]["name"] += f"-on-{node}"
    job["metadata"]["namespace"] = NAMESPACE
    return job


def _mesh_node(kubectl: Kubectl) -> str:
    """Return the node whose links differ most between pairs of GPUs."""
    return next(
        str(topology["metadata"]["name"])
        for topology in kubectl.list("gputopologies")
        if any(link["kind"] == LinkKind.NVLINK for link in topology["spec"]["links"])
    )


def _observed(kubectl: Kubectl, name: str) -> bool:
    """Whether the job runs and the node has reported its GPUs."""
    status = kubectl.get("gpujob", name, NAMESPACE).get("status", {})
    placements = status.get("placements", [])
    return status.get("phase") == "Running" and any(one.get("observed") for one in placements)


def _row(kubectl: Kubectl, name: str) -> dict[str, Any]:
    """Return the decision for one job, and the data of its container and of kubelet."""
    (placement,) = kubectl.get("gpujob", name, NAMESPACE)["status"]["placements"]
    (held,) = read_containers(
        kubectl, kubectl.list("pods", NAMESPACE, selector=f"{JOB_LABEL}={name}")
    )
    return {
        "job": name,
        "node": held.node,
        "gpus": list(held.visible),
        "aggregateGBps": placement["aggregateMBps"] / 1000,
        "effectiveGBps": _gb(placement.get("effectiveMBps")),
        "model": placement.get("model"),
        "agrees": held.agrees,
        "books": _sources(held),
    }


def _sources(held: ContainerGpus) -> dict[str, Any]:
    sources = asdict(held)
    return {
        key: sorted(value) if isinstance(value, frozenset) else value
        for key, value in sources.items()
    }


def _gb(mb: int | None) -> float | None:
    return None if mb is None else mb / 1000


def _table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield ""
    job = max(20, *(len(row["job"]) for row in rows))
    node = max(5, *(len(row["node"]) for row in rows))
    line = f"{{:<{job}}} {{:<{node}}} {{:>9}} {{:>9}}  {{:<10}} {{:<8}} {{}}"
    yield line.format(
        "GPUJOB", "NODE", "AGG GB/s", "EFF GB/s", "MODEL", "KUBELET", "GPUs IN RANK ORDER"
    )
    for row in rows:
        figures = (row["aggregateGBps"], row["effectiveGBps"] or "-", row["model"] or "-")
        sources = "agrees" if row["agrees"] else "DIFFERS"
        first, *rest = row["gpus"]
        yield line.format(row["job"], row["node"], *figures, sources, first)
        yield from (line.format(*[""] * 6, uuid) for uuid in rest)


def _what_next(stages: Stages, command: str) -> str:
    took = ", ".join(f"{name} {seconds} s" for name, seconds in stages.seconds.items())
    return f"""
The GPUs are what CUDA_VISIBLE_DEVICES says inside each container. "agrees" means that the
extender's annotation, the container's device nodes, kubelet's podresources API and kubelet's
checkpoint file all say the same. Stages: {took}.

Look around (in each new shell, begin with the first two commands):
  eval "$({command} env)"            # kubectl and helm for this cluster
  export PATH=$PATH:$PWD/.venv/bin       # gputopo, and kubectl gputopo
  kubectl get gputopologies,gpujobs,pods -A -o wide
  gputopo who-has                        # which pod has which GPU
  gputopo explain ring -n {NAMESPACE}   # why the job has its GPUs
  gputopo web                            # the same in a browser, until Ctrl-C
Run a job of your own: docs/start/first-job.md
Remove everything:
  {command} down"""


if __name__ == "__main__":
    main()
