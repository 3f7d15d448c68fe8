"""The page of the chart, at a forwarded port of its Service."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

import pytest

import workloads
from charts import QUEUE_AND_PAGE
from sandbox import Sandbox
from showcase.install import NAMESPACE, Installed
from showcase.kubectl import Kubectl, wait_for
from support.web.fetch import fetch

pytestmark = [pytest.mark.e2e, QUEUE_AND_PAGE]

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gputopo-web"


@dataclass(frozen=True, slots=True)
class ForwardedPage:
    """The page at a port of this machine."""

    url: str

    def get(self, path: str) -> str:
        """Return the text of a page, also that of an error."""
        return self.request("GET", path)[1]

    def request(self, method: str, path: str, **headers: str) -> tuple[int, str]:
        """Return status and text of a response."""
        return fetch(self.url + path, method, **headers)

    def nodes(self) -> set[str]:
        """Return the names of the nodes on the map."""
        return set(re.findall(r'id="node-([^"]+)"', self.get("/")))

    def gpus_of(self, pod: str) -> set[tuple[str, int]]:
        """Return node and index of each GPU of a pod on the map."""
        _, *parts = re.split(r'id="node-([^"]+)"', self.get("/"))
        return {
            (node, int(index))
            for node, card in zip(parts[::2], parts[1::2], strict=True)
            for index in re.findall(rf"<title>GPU (\d+): [^<]*{re.escape(pod)}", card)
        }


@contextmanager
def forwarded(kubectl: Kubectl) -> Iterator[ForwardedPage]:
    """Forward a free port of this machine to the Service of the page."""
    command = [str(kubectl.binary), "port-forward", "--namespace", NAMESPACE]
    with subprocess.Popen(
        [*command, "service/gputopo-web", ":80"],
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environment,
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.match(r"Forwarding from (127\.0\.0\.1:\d+)", line)
            assert found, f"kubectl port-forward printed {line!r}"
            yield ForwardedPage(f"http://{found[1]}")
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def page(chart: Installed) -> Iterator[ForwardedPage]:
    """The page at a forwarded port."""
    with forwarded(chart.kubectl) as found:
        yield found


def indexes(kubectl: Kubectl) -> dict[str, tuple[str, int]]:
    """Return node and index of each GPU, by UUID."""
    return {
        gpu["uuid"]: (topology["metadata"]["name"], gpu["index"])
        for topology in kubectl.list("gputopologies")
        for gpu in topology["spec"]["gpus"]
    }


def test_the_page_shows_each_node_and_the_gpus_that_containers_have(
    page: ForwardedPage, sandbox: Sandbox, dgx1: str, pcie: str
) -> None:
    names = {each["metadata"]["name"] for each in sandbox.kubectl.list("gputopologies")}
    wait_for("the page shows each node", lambda: page.nodes() == names)
    at = indexes(sandbox.kubectl)
    for name, gpus, node in (("three", 3, dgx1), ("one", 1, pcie)):
        sandbox.run_pod(name, gpus, node=node, policy="Preserve")
    for user in sandbox.assert_sources_agree():
        wanted = {at[uuid] for uuid in user.visible}
        shown = f"{sandbox.namespace}/{user.pod}"
        wait_for(
            f"the page shows {shown} on GPUs {sorted(wanted)}",
            lambda shown=shown, wanted=wanted: page.gpus_of(shown) == wanted,  # type: ignore[misc]
        )


def test_a_placed_and_a_waiting_pod_are_explained(
    page: ForwardedPage, sandbox: Sandbox, dgx1: str, nvswitch: str, pcie: str
) -> None:
    for node in (dgx1, nvswitch, pcie):
        sandbox.run_pod(f"on-{node}", 3, node=node, policy="Preserve")
    sandbox.create(workloads.gpu_pod("waits", 8, image=sandbox.image))

    def has(pod: str, *texts: str) -> bool:
        shown = page.get(f"/pod/{sandbox.namespace}/{pod}")
        return all(text in shown for text in texts)

    wait_for(
        "the placed pod is explained",
        lambda: has(f"on-{dgx1}", "Why these GPUs", "<strong>same choice</strong>"),
    )
    wait_for(
        "the waiting pod is explained by the pods that would have to end",
        lambda: has("waits", "Why it waits", f"{sandbox.namespace}/on-{dgx1}"),
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_requests_that_would_change_something_are_rejected(
    page: ForwardedPage, method: str
) -> None:
    for path in ("/", "/what-if", "/pod/default/any"):
        assert page.request(method, path) == (
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"method: {method} is not allowed; the page only reads: use GET\n",
        )


def test_requests_for_names_of_other_hosts_are_rejected(page: ForwardedPage) -> None:
    status, text = page.request("GET", "/", Host="attacker.example.com")
    assert status == HTTPStatus.MISDIRECTED_REQUEST
    assert "Host: this name is not allowed" in text
    for name in ("gputopo-web", f"gputopo-web.{NAMESPACE}.svc"):
        assert page.request("GET", "/livez", Host=name)[0] == HTTPStatus.OK


@pytest.mark.usefixtures("page")
def test_the_account_of_the_page_may_only_list_and_watch(kubectl: Kubectl) -> None:
    kinds = ("pods", "jobs.batch", "gpujobs.gputopo.io")
    reviewed = [
        (verb, kind)
        for kind in (*kinds, "gputopologies.gputopo.io", "gpuprofiles.gputopo.io")
        for verb in ("list", "watch", "get", "create", "update", "patch", "delete")
    ]

    def allowed(verb: str, kind: str, where: str = "--all-namespaces") -> bool:
        review = ("auth", "can-i", verb, kind, where, f"--as={ACCOUNT}", "-q")
        done = subprocess.run([str(kubectl.binary), *review], env=kubectl.environment, check=False)
        return done.returncode == 0

    found = {(verb, kind) for verb, kind in reviewed if allowed(verb, kind)}
    assert found == {each for each in reviewed if each[0] in {"list", "watch"}}
    assert allowed("list", "deployments.apps", f"--namespace={NAMESPACE}")
    assert not allowed("list", "deployments.apps")
    assert not allowed("patch", "deployments.apps", f"--namespace={NAMESPACE}")
