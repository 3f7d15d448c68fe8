"""The pods that share a GPU, as the component for MPS reads them."""

import json

from gputopo.api.names import GPUS_ANNOTATION, SHARING_TERMINATION_ANNOTATION
from gputopo_mps.pods import parse_sharing_pod
from support.builders.shares import SHARES, sharing_pod


def ends_itself(mode: str, recorded: str | None) -> bool:
    """Return how a bound pod ends: its annotation now, and the value in the Binding."""
    document = sharing_pod(
        "a", share="GPU-a::0", annotations={SHARING_TERMINATION_ANNOTATION: mode}
    )
    annotations = document["metadata"]["annotations"]
    if recorded is not None:
        written = json.loads(annotations[GPUS_ANNOTATION])
        written["request"] = {"sharing-termination": recorded} if recorded else {}
        annotations[GPUS_ANNOTATION] = json.dumps(written, separators=(",", ":"))
    found = parse_sharing_pod(document, SHARES)
    assert found is not None
    return found.ends_itself


def test_termination_is_the_one_that_was_recorded_at_the_binding() -> None:
    assert ends_itself("Program", None)
    assert not ends_itself("Client", None)
    assert ends_itself("Client", "Program")
    assert not ends_itself("Program", "Client")
    assert not ends_itself("Program", "")
