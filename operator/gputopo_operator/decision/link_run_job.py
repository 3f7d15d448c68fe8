"""Builds the Job of a short run that measures links, and the patch that ends it."""

from hashlib import sha256
from typing import Any, Final

from gputopo.api.link_runs import LinkRunResult
from gputopo.api.names import LINK_RESULT_ANNOTATION, LINK_RUN_LABEL
from gputopo.api.profile import GPUProfile
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.patterns.declared import DeclaredPattern
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_kube.document import Document
from gputopo_operator.decision.child_job import child_job
from gputopo_operator.model.jobs import GpuJob, LinkRun, LinkSet, PodDefaults

RUN_VARIABLE: Final = "GPUTOPO_LINK_RUN"
"""Environment variable of the containers: ``Best`` or ``Worst``. A program can check it, and write
no checkpoints and no results in a short run."""

_POLICIES: Final = {LinkSet.BEST: PolicyName.PRESERVE, LinkSet.WORST: PolicyName.WEAKEST}
_MOST_CHARACTERS: Final = 63


def link_run_name(job: str, kind: LinkSet) -> str:
    """Return the name of the Job of a run; a long name of the GPUJob is shortened.

    >>> link_run_name("train", LinkSet.BEST)
    'train-links-best'
    """
    suffix = f"-links-{kind.lower()}"
    if len(job + suffix) <= _MOST_CHARACTERS:
        return job + suffix
    digest = sha256(job.encode()).hexdigest()[:8]
    # A hyphen after a dot is not valid in a name.
    shortened = job[: _MOST_CHARACTERS - len(suffix) - len(digest) - 1].rstrip("-.")
    return f"{shortened}-{digest}{suffix}"


def link_run_job(
    job: GpuJob,
    spec: GPUJobSpec,
    profile: GPUProfile | None,
    defaults: PodDefaults,
    *,
    kind: LinkSet,
    node: str | None,
    pattern: str | None,
) -> Document:
    """Return the Job of a run. Kubernetes ends it at its time limit, even if no operator runs.

    The pod has no priority class, so that it preempts no other pod. If the GPUJob declares no
    communication pattern, the run gets ``pattern``, that of the first run: the first run may have
    shown another pattern meanwhile, and bandwidths of two patterns cannot be compared.

    Raises:
        SpecError: the template contradicts the spec of the GPUJob.
    """
    run = child_job(job, _spec_of_run(spec, kind, pattern), profile, defaults)
    run["metadata"]["name"] = link_run_name(job.key.name, kind)
    run["metadata"]["labels"][LINK_RUN_LABEL] = kind.value
    run["spec"] |= {"backoffLimit": 0, "activeDeadlineSeconds": spec.profiling.max_seconds}
    template = run["spec"]["template"]
    template["metadata"]["labels"][LINK_RUN_LABEL] = kind.value
    pod = template["spec"]
    pod.pop("priorityClassName", None)
    if node is not None:
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), "kubernetes.io/hostname": node}
    for container in pod["containers"]:
        variables = container.get("env") or []
        container["env"] = [*variables, {"name": RUN_VARIABLE, "value": kind.value}]
    return run


def ended_patch(run: LinkRun, result: LinkRunResult) -> Document:
    """Return the patch that stores the result of a run and suspends its Job.

    Kubernetes deletes the pods of a suspended Job, so the operator needs no right to delete Jobs.
    If Kueue manages Jobs without a queue, it may resume this Job. Then the Job ends at its
    ``activeDeadlineSeconds``.
    """
    annotations = {LINK_RESULT_ANNOTATION: result.dump()}
    identity = {"uid": run.uid, "resourceVersion": run.resource_version}
    spec = {"suspend": True, "activeDeadlineSeconds": 1}
    return {"metadata": {**identity, "annotations": annotations}, "spec": spec}


def _spec_of_run(spec: GPUJobSpec, kind: LinkSet, pattern: str | None) -> GPUJobSpec:
    """Return the GPUJob's spec with a policy that chooses GPUs with the best or the worst links.

    The operator does not size a run: it has the CPU and memory of the template all the time. With
    ``resources.min``, a program could wait for CPUs and so be equally slow on all links.
    """
    communication: dict[str, Any] = {"bandwidth_sensitivity": Sensitivity.SENSITIVE}
    declared = spec.communication.pattern or DeclaredPattern.AUTO
    if declared is DeclaredPattern.AUTO and pattern in list(PatternKind):
        communication["pattern"] = DeclaredPattern(pattern)
    changes: dict[str, Any] = {
        "priority_class_name": None,
        "placement": spec.placement.model_copy(update={"policy": _POLICIES[kind]}),
        "communication": spec.communication.model_copy(update=communication),
        "profiling": spec.profiling.model_copy(update={"measure": []}),
        "resources": spec.resources.model_copy(update={"mode": "Fixed"}),
    }
    return spec.model_copy(update=changes)
