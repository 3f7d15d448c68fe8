"""Decides how the annotations of a running pod follow a changed spec of its GPUJob."""

from dataclasses import replace

from gputopo.api.names import RESOURCES_MAX_ANNOTATION
from gputopo.api.tuning import format_tuning_request
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo_kube.document import Document
from gputopo_operator.decision.initial_amounts import tuning_request
from gputopo_operator.decision.job_patch import REJECTED_RECHECK_SECONDS
from gputopo_operator.decision.spec_error import SpecError
from gputopo_operator.model.jobs import GpuJobState, JobPod, ObjectEvent, ReconcilePlan


def pod_patch(spec: GPUJobSpec, pod: JobPod | None) -> tuple[str, Document] | None:
    """Return the pod's name and the patch that copies a changed ``resources.max``, or None."""
    if pod is None or pod.size is None or not pod.view.live:
        return None
    try:
        request = tuning_request(spec.resources)
    except SpecError:  # the condition Sized shows the error
        return None
    if request == pod.size.request or request.mode is not pod.size.request.mode:
        return None
    most = format_tuning_request(request).get(RESOURCES_MAX_ANNOTATION)
    metadata = {"uid": pod.view.uid, "annotations": {RESOURCES_MAX_ANNOTATION: most}}
    return pod.view.name, {"metadata": metadata}


def with_pod_patch(
    state: GpuJobState, plan: ReconcilePlan, patch: tuple[str, Document] | None
) -> ReconcilePlan:
    """Add the patch of the pod to the plan, and an event if the API server has rejected it."""
    plan = replace(plan, pod_patch=patch)
    if patch is None or not state.errors.pod_patch:
        return plan
    note = f"pod {patch[0]} keeps its former resources.max: {state.errors.pod_patch}"
    return replace(
        plan,
        events=(*plan.events, ObjectEvent("Warning", "PodNotUpdated", note)),
        recheck_after_seconds=REJECTED_RECHECK_SECONDS,
    )
