"""A member or an ensemble with impossible values does not stop the others."""

import pytest

from support.api.server import ApiServer
from support.builders.gpujobs import Document
from support.operator.served_ensemble import Served

IMPOSSIBLE = "2026-99-99T99:99:99Z"

JOB_STATUSES: dict[str, Document] = {
    "time": {"queue": {"waitingSince": IMPOSSIBLE}},
    "condition": {"conditions": [{"type": "Complete", "status": "Maybe"}]},
    "text": {"conditions": "none", "placements": "n1"},
}


def put_bad_member(api: ApiServer, status: Document, spec: Document) -> None:
    labels = {"gputopo.io/ensemble": "other", "gputopo.io/ensemble-member": "x"}
    metadata = {"name": "other-x", "namespace": "default", "uid": "uid-bad", "labels": labels}
    api.put("gpujobs", {"metadata": metadata, "spec": spec, "status": status})


@pytest.mark.parametrize("kind", JOB_STATUSES)
@pytest.mark.parametrize("spec", [{"gpusPerReplica": 1}, {}])
def test_ensemble_goes_on_beside_an_unreadable_member_of_another(
    served: Served, kind: str, spec: Document
) -> None:
    put_bad_member(served.api, JOB_STATUSES[kind], spec)
    served.reconcile()
    names = {each["metadata"]["name"] for each in served.api.all("gpujobs")}
    assert {"search-a", "search-b"} <= names


def test_impossible_time_of_a_member_is_reported_once_and_replaced(served: Served) -> None:
    served.reconcile()

    def change(ensemble: Document) -> None:
        ensemble["status"]["members"][0]["startingSince"] = IMPOSSIBLE

    served.api.change("gpuensembles", "search", change)
    for _ in range(3):
        served.reconcile()
    assert IMPOSSIBLE not in str(served.status)
    assert served.reasons().count("StatusInvalid") == 1
