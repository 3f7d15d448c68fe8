"""``gputopo web`` passes its options to the page and shows the address."""

from collections.abc import Callable

import pytest

from gputopo_web.server import run
from gputopo_web.server.run import ServedPage, WebOptions
from support.cli.command_line import Command

URL = "http://127.0.0.1:1234/"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[WebOptions]:
    """Return the options with which the page was served."""
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
    gputopo("web --port 0 --context lab -n ml --open")
    assert served == [WebOptions(port=0, context="lab", namespace="ml")]
    assert opened == [URL]


def test_a_port_out_of_range_is_rejected(gputopo: Command, served: list[WebOptions]) -> None:
    assert gputopo("web --port 70000").status == 2
    assert served == []
