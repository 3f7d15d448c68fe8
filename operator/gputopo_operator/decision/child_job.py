"""Builds the batch/v1 Job that runs a GPUJob."""

from typing import Final

from gputopo.api.link_runs import LinksResult
from gputopo.api.names import ENSEMBLE_LABEL, JOB_LABEL, LINK_RESULT_ANNOTATION
from gputopo.api.profile import GPUProfile
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo_kube.document import Document
from gputopo_operator.decision.owner import owner_reference
from gputopo_operator.decision.pod_template import pod_template
from gputopo_operator.model.jobs import GpuJob, PodDefaults
from gputopo_operator.parse.jobs import QUEUE_LABEL

SPARE_FAILURES: Final = 10
"""Number of failures that a child Job allows in addition to the limits of its GPUJob.

The Job controller counts deleted pods as failed, but the operator does not. The spare failures
give the operator time to raise the limit. If no operator runs, the Job ends at its limit.
"""

_KUEUE_PREFIX = QUEUE_LABEL.partition("/")[0] + "/"


def child_job(
    job: GpuJob,
    spec: GPUJobSpec,
    profile: GPUProfile | None,
    defaults: PodDefaults,
    links: LinksResult | None = None,
    *,
    queued: bool = False,
) -> Document:
    """Return the Job to create. An annotation stores ``links``, the result of measuring links.

    If ``queued`` is true, gputopo's queue starts the Job.

    Raises:
        SpecError: the template contradicts the spec of the GPUJob.
    """
    queue_labels = {k: v for k, v in job.labels.items() if k.startswith(_KUEUE_PREFIX)}
    template = pod_template(job.key.name, spec, profile, defaults)
    ensemble = {k: v for k, v in job.labels.items() if k == ENSEMBLE_LABEL}
    template["metadata"]["labels"] |= ensemble
    child_spec: Document = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": backoff_limit(spec),
        # Create the next pod only after the failed pod has ended, because its GPUs are free then.
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": _failure_policy(),
        # With a queue label, the queue starts the Job.
        "suspend": spec.suspend or queued or QUEUE_LABEL in queue_labels,
        "template": template,
    }
    if spec.limits.active_deadline_seconds is not None:
        child_spec["activeDeadlineSeconds"] = spec.limits.active_deadline_seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.key.name,
            "namespace": job.key.namespace,
            "labels": {**queue_labels, **ensemble, JOB_LABEL: job.key.name},
            **({"annotations": {LINK_RESULT_ANNOTATION: links.dump()}} if links else {}),
            "ownerReferences": [owner_reference("GPUJob", job)],
        },
        "spec": child_spec,
    }


def backoff_limit(spec: GPUJobSpec) -> int:
    """Return a ``backoffLimit`` above the operator's limits, so that the operator ends the job."""
    return spec.limits.backoff_limit + spec.limits.max_admission_retries + SPARE_FAILURES


def _failure_policy() -> Document:
    """Return the policy by which pods with the condition DisruptionTarget do not fail the Job."""
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    return {"rules": [{"action": "Ignore", "onPodConditions": [disrupted]}]}
