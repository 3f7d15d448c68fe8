"""The HTTP server of probes and metrics."""

import asyncio
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from gputopo_kube.probes import Check, ProbeServer, in_event_loop


def healthy() -> None:
    return None


PATIENT = 60.0
"""Longer than any test."""


@contextmanager
def serving(
    live: Check = healthy,
    ready: Check = healthy,
    host: str = "127.0.0.1",
    silence_seconds: float = PATIENT,
) -> Iterator[str]:
    server = ProbeServer(
        host, 0, live=live, ready=ready, metrics=lambda: b"up 1\n", silence_seconds=silence_seconds
    )
    with closing(server):
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{server.port}"


def get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENT) as response:  # noqa: S310 - its own server
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_healthy_program_is_alive_and_ready(host: str) -> None:
    with serving(host=host) as url:
        assert get(f"{url}/livez") == (200, b"ok\n")
        assert get(f"{url}/readyz") == (200, b"ok\n")
        assert get(f"{url}/metrics") == (200, b"up 1\n")
        assert get(f"{url}/metrics?format=text")[0] == 200
        assert get(f"{url}/")[0] == 404


@pytest.mark.parametrize("dual", [True, False])
def test_without_a_host_all_addresses_are_served(
    monkeypatch: pytest.MonkeyPatch, *, dual: bool
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: dual)
    with serving(host="") as url:
        port = url.rpartition(":")[2]
        assert get(f"http://127.0.0.1:{port}/livez") == (200, b"ok\n")
        if dual:
            assert get(f"http://[::1]:{port}/livez") == (200, b"ok\n")


def test_a_failed_check_returns_its_reason() -> None:
    with serving(live=lambda: "stuck", ready=lambda: "no list yet") as url:
        assert get(f"{url}/livez") == (503, b"stuck\n")
        assert get(f"{url}/readyz") == (503, b"no list yet\n")


def test_a_client_that_sends_nothing_does_not_keep_its_thread() -> None:
    with serving(silence_seconds=0.2) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), PATIENT) as client:
            client.sendall(b"GET /livez")
            assert client.recv(1) == b""


async def test_a_check_in_the_event_loop_waits_while_the_loop_is_stuck() -> None:
    responses: list[tuple[int, bytes]] = []
    check_in_loop, called = in_event_loop(healthy), threading.Event()

    def live() -> str | None:
        called.set()
        return check_in_loop()

    with serving(live=live) as url:
        assert await asyncio.to_thread(get, f"{url}/livez") == (200, b"ok\n")
        client = threading.Thread(target=lambda: responses.append(get(f"{url}/livez")))
        called.clear()
        client.start()
        assert called.wait(PATIENT)
        time.sleep(0.3)  # noqa: ASYNC251 - the loop is stuck
        assert not responses
        await asyncio.to_thread(client.join)
    assert responses == [(200, b"ok\n")]
