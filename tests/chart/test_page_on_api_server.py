"""The page with the account of the chart, on a real API server with its audit log."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest

from support.control_plane import api_server
from support.control_plane.api_server import PODS, AuditedRequest, process
from support.control_plane.component_work import put_on_gpus
from support.control_plane.scheduler_pairs import put_nodes, put_pod, wait_until
from support.helm_chart import Helm, find
from support.web.fetch import fetch

ACCOUNT = "gputopo-web"
NODES = ("node-0", "node-1")
ON = {"web": {"enabled": True}}
SERVE = """
from gputopo_web.server.run import WebOptions, serve
options = WebOptions(port=0, installation="gputopo-system")
serve(options, lambda served: print(f"serving {served.url} now", flush=True))
"""


@dataclass(frozen=True, slots=True)
class ServedPage:
    """The page while it is served, and the folder with the audit log of the API server."""

    url: str
    folder: Path

    def get(self, path: str) -> str:
        """Return the text of a page."""
        return self.request("GET", path)[1]

    def request(self, method: str, path: str) -> tuple[int, str]:
        """Return status and text of a response."""
        return fetch(self.url + path, method)

    def sent(self) -> list[AuditedRequest]:
        """Return the requests that the page has sent to the API server."""
        user = f"system:serviceaccount:gputopo-system:{ACCOUNT}"
        return [each for each in api_server.audited(self.folder) if each.user == user]


@pytest.fixture(scope="module")
def page(
    helm: Helm, kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServedPage]:
    """Return the page of a cluster with two nodes, a placed pod and a waiting one."""
    folder, work = tmp_path_factory.mktemp("audited"), tmp_path_factory.mktemp("page")
    with api_server.running(kubernetes_binaries, folder, audit=True) as server:
        helm.install(server.kubeconfig, ON)
        put_nodes(server, len(NODES))
        put_pod(server, "train", 3)
        put_on_gpus(server, "train")
        assert server.merge(f"{PODS}/train/status", {"status": {"phase": "Running"}}).accepted
        put_pod(server, "waits", 9)
        access = server.kubeconfig_of(ACCOUNT, work / "kubeconfig")
        log = work / "page.log"
        with process([sys.executable, "-c", SERVE], log, {**os.environ, "KUBECONFIG": str(access)}):
            # Not "serving" alone: a program without a buffer writes a line in several pieces.
            address = re.compile(r"^serving (\S+)/ now\n", re.MULTILINE)
            wait_until(lambda: address.search(log.read_text()) is not None, seconds=60)
            found = ServedPage(address.findall(log.read_text())[0], folder)
            wait_until(lambda: "default/train" in found.get("/"), seconds=60)
            wait_until(lambda: "default/waits" in found.get("/"), seconds=60)
            wait_until(lambda: shows_nodes(found), seconds=60)
            yield found


def shows_nodes(page: ServedPage) -> bool:
    shown = page.get("/")
    return all(f'id="node-{node}"' in shown for node in NODES)


def test_the_page_shows_nodes_and_placed_and_waiting_pods(page: ServedPage) -> None:
    shown = page.get("/")
    assert shows_nodes(page)
    used = re.findall(r"<title>(GPU \d): [^<]*default/train", shown)
    assert used == ["GPU 0", "GPU 1", "GPU 2"]
    assert "Why these GPUs" in page.get("/pod/default/train")
    assert "Why it waits" in page.get("/pod/default/waits")
    result = page.get("/what-if?gpus=8&node=node-0&after_end=default/train")
    assert "The pod would get GPUs" in result


def test_the_account_uses_each_of_its_rights_and_needs_no_other(
    helm: Helm, page: ServedPage
) -> None:
    rendered = helm.render(ON)
    roles = [find(rendered, kind, ACCOUNT) for kind in ("ClusterRole", "Role")]
    given = {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    def used() -> set[tuple[str, str, str]]:
        return {(each.group, each.resource, each.verb) for each in page.sent()}

    wait_until(lambda: given <= used(), seconds=30)
    assert used() == given
    assert [each for each in page.sent() if each.status >= HTTPStatus.BAD_REQUEST] == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/pod/default/train", "/what-if", "/events"])
def test_requests_that_would_change_something_are_rejected(
    page: ServedPage, method: str, path: str
) -> None:
    status, text = page.request(method, path)
    assert (status, text) == (
        HTTPStatus.METHOD_NOT_ALLOWED,
        f"method: {method} is not allowed; the page only reads: use GET\n",
    )
    assert {each.verb for each in page.sent()} <= {"list", "watch"}
