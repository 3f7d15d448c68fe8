"""Parses the measured speeds of pods from GPUTopology objects."""

from contextlib import suppress

from pydantic import ValidationError

from gputopo.api.profile import Measurement
from gputopo_kube.document import Document


def parse_measured(topology: Document) -> dict[str, Measurement]:
    """Parse a GPUTopology. The result maps each measured pod's UID to its measurement.

    If a pod has several measured containers, the first measurement counts. Pods of GPUJobs have one
    container with GPUs, so they have at most one measurement.
    """
    measured: dict[str, Measurement] = {}
    for each in (topology.get("status") or {}).get("measurements") or ():
        # A newer agent may use values that this version does not know.
        with suppress(ValidationError):
            found = Measurement.model_validate(each)
            measured.setdefault(found.pod_uid, found)
    return measured
