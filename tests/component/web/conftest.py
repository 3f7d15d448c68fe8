"""The page in Debian's chromium, of a server that watches a fake API server."""

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page

from gputopo_web.server.run import ServedPage, WebOptions, serve
from support.api.kubeconfig import write_kubeconfig
from support.api.server import ApiServer, serving_in_thread
from support.builders import objects
from support.cli import healthy_cluster
from support.web.browser import LONGEST_MS, running_browser
from support.web.clusters import placed_pod


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Not for the session: while the browser runs, no other test can run an event loop.
    with running_browser() as launched:
        yield launched


@pytest.fixture
def api() -> Iterator[ApiServer]:
    """Return the API server of a cluster with two nodes, three running pods and a waiting one."""
    found = healthy_cluster.users_of_gpus()
    with serving_in_thread(ApiServer()) as server:
        for document in found.lists[healthy_cluster.TOPOLOGIES]:
            server.create("gputopologies", document)
        for document in found.lists[healthy_cluster.PODS]:
            server.create("pods", document)
        figures = placed_pod("figures", "n2", healthy_cluster.uuids("n2", 0, 1))
        server.create("pods", figures)
        waiting = objects.pod("waits", 8)
        condition = objects.condition("PodScheduled", "False", "Unschedulable")
        waiting["status"]["conditions"] = [condition | {"message": "0/2 nodes are available"}]
        server.create("pods", waiting)
        yield server


@pytest.fixture
def served(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedPage]:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", api.url)))
    ready: Queue[ServedPage] = Queue()
    options = WebOptions(port=0)
    thread = threading.Thread(target=serve, args=(options, ready.put), name="page")
    thread.start()
    found = ready.get(timeout=60)
    yield found
    found.stop()
    thread.join()


@pytest.fixture
def browser_errors() -> list[str]:
    """Return the errors that the browser has reported; a test may expect and remove some."""
    return []


@pytest.fixture
def page(browser: Browser, served: ServedPage, browser_errors: list[str]) -> Iterator[Page]:
    """Return the opened page; the test fails if the browser reports an error."""

    def note(message: ConsoleMessage) -> None:
        # The browser also reports violations of the Content-Security-Policy as errors.
        if message.type == "error":
            browser_errors.append(message.text)

    with browser.new_context() as context:
        context.set_default_timeout(LONGEST_MS)
        opened = context.new_page()
        opened.on("console", note)
        opened.on("pageerror", lambda error: browser_errors.append(str(error)))
        opened.goto(served.url)
        opened.wait_for_selector("#connection:has-text('live')")
        opened.wait_for_selector("#node-n2")
        yield opened
    assert browser_errors == []
