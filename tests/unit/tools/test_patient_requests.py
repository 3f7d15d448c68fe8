"""The tools repeat requests while the API server does not respond."""

from pathlib import Path
from typing import Any, cast

import pytest

from showcase.kubectl import Kubectl, KubectlError, wait_for
from soaktest import client
from soaktest.bursts import inversions
from soaktest.client import Client, Object, RejectedError, UnavailableError, create_patiently


class LostResponses:
    """An API server that creates each object; its responses to the first requests are lost."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        self.objects: dict[str, Any] = {}

    def create(self, path: str, manifest: Object) -> Object:
        key = f"{path}/{manifest['metadata']['name']}"
        if key in self.objects:
            raise RejectedError(409, "already exists")
        self.objects[key] = manifest | {"kind": "Pod"}
        if self.lost:
            self.lost -= 1
            raise UnavailableError("connection lost")
        return self.objects[key]  # type: ignore[no-any-return]

    def get(self, path: str) -> Object:
        return self.objects[path]  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def test_an_object_whose_response_was_lost_is_returned() -> None:
    server = cast("Client", LostResponses(1))
    created = create_patiently(server, "/pods", {"metadata": {"name": "a"}})
    assert created == {"metadata": {"name": "a"}, "kind": "Pod"}


def test_an_object_that_existed_before_is_an_error() -> None:
    server = cast("Client", LostResponses(0))
    create_patiently(server, "/pods", {"metadata": {"name": "a"}})
    with pytest.raises(RejectedError, match="already exists"):
        create_patiently(server, "/pods", {"metadata": {"name": "a"}})


def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PATIENCE_SECONDS", -1.0)

    def fail() -> None:
        raise UnavailableError("connection lost")

    with pytest.raises(UnavailableError, match="connection lost"):
        client.patient(fail)


def failing_kubectl(folder: Path, text: str, failures: int) -> Kubectl:
    """Return a kubectl that fails with this text a few times."""
    binary, calls = folder / "kubectl", folder / "calls"
    calls.touch()
    (folder / "text").write_text(text)
    binary.write_text(
        f"""#!/bin/sh
echo call >> {calls}
if [ "$(wc -l < {calls})" -le {failures} ]; then cat {folder / "text"} >&2; exit 1; fi
echo '{{"items": [{{}}]}}'
"""
    )
    binary.chmod(0o755)
    return Kubectl(binary, folder / "kubeconfig")


@pytest.mark.parametrize(
    "text",
    [
        "Error from server: etcdserver: request timed out",
        "Error from server: etcdserver: leader changed",
        "Unable to connect to the server: net/http: TLS handshake timeout",
        "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host?",
        "dial tcp 10.0.0.1:6443: connect: connection refused",
        'Get "https://10.0.0.1:6443/api/v1/pods": unexpected EOF',
    ],
)
def test_reads_of_kubectl_are_repeated_after_a_transient_error(tmp_path: Path, text: str) -> None:
    assert failing_kubectl(tmp_path, text, 2).list("pods") == [{}]
    assert len((tmp_path / "calls").read_text().splitlines()) == 3


def test_other_errors_of_kubectl_are_raised_at_once(tmp_path: Path) -> None:
    text = 'Error from server (NotFound): pods "a" not found'
    with pytest.raises(KubectlError, match="NotFound"):
        failing_kubectl(tmp_path, text, 1).get("pod", "a", "default")
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_commands_that_change_something_are_not_repeated(tmp_path: Path) -> None:
    kubectl = failing_kubectl(tmp_path, "etcdserver: request timed out", 1)
    with pytest.raises(KubectlError, match="timed out"):
        kubectl.create({})
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_wait_looks_once_more_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks = [0.0], list[float]()

    def look() -> bool:
        looks.append(now[0])
        now[0] += 100.0  # the machine stalls
        return len(looks) == 2

    def never() -> None:
        looks.append(now[0])
        now[0] += 100.0

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    assert wait_for("the second look", look, timeout_s=60)
    looks.clear()
    with pytest.raises(TimeoutError, match="not within 60 s: never"):
        wait_for("never", never, timeout_s=60)
    assert len(looks) == 2


def test_inversions_count_the_pairs_that_were_bound_against_their_order() -> None:
    made = ["a", "b", "c", "never"]
    assert inversions({"a": 1.0, "b": 2.0, "c": 3.0}, made) == 0
    assert inversions({"a": 3.0, "b": 2.0, "c": 1.0}, made) == 3
    assert inversions({"a": 1.0, "b": 3.0, "c": 2.0}, made) == 1
    assert inversions({"a": 1.0, "b": 1.0, "c": 1.0}, made) == 0
