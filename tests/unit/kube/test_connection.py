"""Connections of the official client: lost responses, time limits, and renewed credentials."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gputopo_kube import kubeconfig
from gputopo_kube.blocking_http import HttpRequest
from gputopo_kube.errors import UnavailableError
from gputopo_kube.kubeconfig import connection, one_at_a_time
from support.api.faults import SILENT, Fault
from support.api.kubeconfig import write_kubeconfig
from support.api.server import ApiServer, serving_in_thread
from support.builders import objects

PODS = HttpRequest("GET", "/api/v1/pods", {}, None)
WATCH = HttpRequest("GET", "/api/v1/pods", {"watch": "true"}, None)
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with serving_in_thread(ApiServer()) as server:
        yield server


@pytest.fixture
def use_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes a server that of the kubeconfig."""

    def use(url: str) -> None:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", url)))

    return use


@contextmanager
def cutting_server() -> Iterator[str]:
    """Serve one response that ends early; return the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond() -> None:
            accepted, _ = listener.accept()
            with accepted:
                while b"\r\n\r\n" not in accepted.recv(65536):
                    pass
                accepted.sendall(CUT)

        thread = threading.Thread(target=respond)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_a_response_that_ends_early_makes_the_server_unavailable(
    use_server: Callable[[str], None],
) -> None:
    with cutting_server() as url:
        use_server(url)
        with connection() as link, pytest.raises(UnavailableError, match=re.escape(url)):
            link.api.get("api", "v1", "pods")


def test_a_watch_that_ends_early_makes_the_server_unavailable(
    use_server: Callable[[str], None],
) -> None:
    with cutting_server() as url:
        use_server(url)
        with connection() as link:
            stream = link.open_stream(WATCH)
            with pytest.raises(UnavailableError, match=re.escape(url)):
                list(stream.parts())


def test_a_watch_without_headers_fails_as_early_as_other_requests(
    api: ApiServer, use_server: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_server(api.url)
    monkeypatch.setattr(kubeconfig, "_TIMEOUT_SECONDS", 0.1)
    api.faults.append(Fault("GET", "watch=true", SILENT))
    with connection() as link, pytest.raises(UnavailableError, match="timed out"):
        link.open_stream(WATCH)


def test_a_watch_may_be_silent_until_the_server_ends_it(
    api: ApiServer, use_server: Callable[[str], None]
) -> None:
    use_server(api.url)
    with connection() as link:
        stream: Any = link.open_stream(WATCH)
        assert stream.response.connection.sock.gettimeout() > 290
        stream.close()


def test_a_response_without_a_body_is_complete_when_it_is_opened(
    api: ApiServer, use_server: Callable[[str], None]
) -> None:
    use_server(api.url)
    api.faults.append(Fault("GET", "watch=true", 500, content_type=""))
    with connection() as link:
        stream = link.open_stream(WATCH)
        assert (stream.status, list(stream.parts())) == (500, [])


def test_credentials_that_cannot_be_renewed_make_the_server_unavailable(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals = ["", "token file: not found\nmore"]

    def load_service_account(client_configuration: Any) -> None:
        def renew(configuration: Any) -> None:
            if fault := renewals.pop(0):
                raise KeyError(fault)
            configuration.api_key["BearerToken"] = "bearer new"

        client_configuration.host = api.url
        client_configuration.api_key["BearerToken"] = "bearer old"
        client_configuration.refresh_api_key_hook = renew

    monkeypatch.setattr(kubeconfig, "load_incluster_config", load_service_account)
    api.create("pods", objects.pod("a"))
    with connection(service_account=True) as link:
        assert link.context is None
        assert link.send(PODS).status == 200
        with pytest.raises(UnavailableError, match=r"credentials: .*token file: not found"):
            link.send(PODS)


def test_credentials_are_renewed_in_one_thread_at_a_time() -> None:
    lock = threading.Lock()
    others_may_renew = []
    renew = one_at_a_time(lambda _: others_may_renew.append(lock.acquire(blocking=False)), lock)
    renew(None)
    assert others_may_renew == [False]
    assert not lock.locked()
