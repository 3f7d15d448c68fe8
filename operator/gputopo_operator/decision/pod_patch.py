"""Decides how the annotations of a running pod follow a changed spec of its GPUJob."""

from dataclasses import replace

from gputopo.api.names import RESOURCES_MAX_ANNOTATION
from gputopo.api.tuning import format_tuning_request
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo_kube.document import Document
from gputopo_operator.decision.initial_amounts import tuning_request
from gputopo_operator.decision.job_patch import REJECTED_RECHECK_SECONDS
from gputopo_operator.decision.situation import JobSituation
from gputopo_operator.decision.spec_error import SpecError
from gputopo_operator.model.jobs import JobPod, ObjectEvent, ReconcilePlan


def with_pod_patch(found: JobSituation, plan: ReconcilePlan) -> ReconcilePlan:
    """Add the patch of the pod to the plan, and an event if the API server has rejected it."""
    patch, error = _pod_patch(found.spec, found.pod), found.state.errors.pod_patch
    plan = replace(plan, pod_patch=patch)
    if patch is None or not error:
        return plan
    note = f"pod {patch[0]} keeps its former resources.max: {error}"
    return replace(
        plan,
        events=(*plan.events, ObjectEvent("Warning", "PodNotUpdated", note)),
        recheck_after_seconds=REJECTED_RECHECK_SECONDS,
    )


def _pod_patch(spec: GPUJobSpec, pod: JobPod | None) -> tuple[str, Document] | None:
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
