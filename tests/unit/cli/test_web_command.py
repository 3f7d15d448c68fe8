"""``gputopo web`` passes its options to the page and shows the address."""

from collections.abc import Callable

import pytest

from gputopo_web.server import run
from gputopo_web.server.run import ServedPage, WebOptions
from support.api.static import StaticApi
from support.builders.live import installed
from support.cli.command_line import Command
from support.cli.healthy_cluster import DEPLOYMENTS

URL = "http://127.0.0.1:1234/"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, api: StaticApi) -> list[WebOptions]:
    """Return the options with which the page of the cluster was served."""
    assert api.url
    found: list[WebOptions] = []

    def serve(options: WebOptions, on_ready: Callable[[ServedPage], None]) -> None:
        found.append(options)
        on_ready(ServedPage(URL, lambda: None))

    monkeypatch.setattr(run, "serve", serve)
    return found


def test_the_page_is_served_on_the_loopback_interface(
    gputopo: Command, served: list[WebOptions]
) -> None:
    done = gputopo("web")
    assert done.out == f"serving {URL} until Ctrl-C\n"
    assert served == [WebOptions(host="127.0.0.1", port=8770)]


def test_options_reach_the_page_and_the_browser_opens_on_request(
    gputopo: Command, served: list[WebOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    gputopo("web --port 0 --context lab -n ml --resource a/gpu --open")
    assert served == [WebOptions(port=0, context="lab", namespace="ml", resource="a/gpu")]
    assert opened == [URL]


def test_gpus_are_counted_by_the_resource_of_the_installation(
    gputopo: Command, api: StaticApi, served: list[WebOptions]
) -> None:
    api.lists[DEPLOYMENTS] = [installed("--resource=example.com/gpu")]
    assert gputopo("web").err == ""
    gputopo("web --resource example.com/other")
    assert [each.resource for each in served] == ["example.com/gpu", "example.com/other"]


def test_the_resource_is_assumed_with_a_note_if_deployments_cannot_be_read(
    gputopo: Command, api: StaticApi, served: list[WebOptions]
) -> None:
    api.forbid(DEPLOYMENTS, "no access")
    done = gputopo("web")
    assert done.err == (
        "note: Deployments cannot be read: API server: 403: no access: the GPUs are assumed to be"
        " the resource gputopo.io/gpu; name another with --resource\n"
    )
    assert served == [WebOptions()]


def test_the_resource_is_assumed_with_a_note_if_nothing_is_installed(
    gputopo: Command, api: StaticApi, served: list[WebOptions]
) -> None:
    api.lists[DEPLOYMENTS] = []
    assert gputopo("web").err.startswith("note: no Deployment has the label ")
    assert served == [WebOptions()]


def test_a_kubeconfig_that_cannot_be_used_is_rejected(
    gputopo: Command, served: list[WebOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/none")
    assert gputopo("web").err.startswith("gputopo: kubeconfig: /none not found")
    assert served == []


def test_a_port_out_of_range_is_rejected(gputopo: Command, served: list[WebOptions]) -> None:
    assert gputopo("web --port 70000").status == 2
    assert served == []
