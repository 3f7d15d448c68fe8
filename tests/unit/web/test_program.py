"""The program of the page: options, addresses, and what happens when it cannot go on."""

import asyncio
import logging
import re
import runpy
import socket
import threading
from pathlib import Path
from queue import Queue

import pytest

from gputopo_kube.document import Document
from gputopo_kube.errors import CredentialsError
from gputopo_web import __main__ as program
from gputopo_web.server import run
from gputopo_web.server.run import AddressError, ServedPage, WebOptions, serve
from support.api.kubeconfig import write_kubeconfig
from support.api.server import ApiServer, serving_in_thread


def test_options_of_the_image_use_the_service_account() -> None:
    found = program.parse(["--port=1", "--allowed-host=a", "--allowed-host=b", "--namespace=ml"])
    assert found == WebOptions(
        host="",
        port=1,
        namespace="ml",
        allowed_hosts=("a", "b"),
        service_account=True,
    )


@pytest.fixture
def own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the handlers and the level of the root logger after the test."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.root.level)


@pytest.mark.usefixtures("own_log")
def test_the_program_shows_why_it_cannot_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--host=127.0.0.1", "--port=0"]) == 1
    assert "gputopo-web: service account: " in capsys.readouterr().err


@pytest.mark.usefixtures("own_log")
def test_the_program_exits_with_status_1_if_it_cannot_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["gputopo-web", "--host=127.0.0.1", "--port=0"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(program.__file__), run_name="__main__")
    assert ended.value.code == 1
    assert "gputopo-web: service account: " in capsys.readouterr().err


@pytest.mark.usefixtures("own_log")
def test_the_program_serves_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = []
    monkeypatch.setattr(program, "serve", lambda options, ready: served.append((options, ready)))
    assert program.main([]) == 0
    [(options, ready)] = served
    ready(ServedPage("http://h/", lambda: None))
    assert options.port == 8080
    assert re.fullmatch(r"\S+Z INFO serving url=http://h/\n", capsys.readouterr().err)


def test_a_port_in_use_is_an_error_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressError, match=f"port: 127.0.0.1:{port}: .*--port"):
            serve(WebOptions(port=port), lambda _: None)


@pytest.mark.parametrize("dual", [True, False])
def test_without_a_host_all_addresses_are_served(
    monkeypatch: pytest.MonkeyPatch, *, dual: bool
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: dual)
    with run._listening("", 0) as listener:
        port = listener.getsockname()[1]
        for address in ("127.0.0.1", *(["::1"] if dual else [])):
            socket.create_connection((address, port), timeout=5).close()


def test_a_missing_kubeconfig_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(CredentialsError, match="kubeconfig: "):
        serve(WebOptions(port=0), lambda _: None)


def test_the_page_stops_if_it_cannot_be_kept_up_to_date(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Document) -> None:
        raise RuntimeError("not expected")

    monkeypatch.setattr("gputopo_web.state.follow.parse_topology", broken)
    with serving_in_thread(ApiServer()) as api:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", api.url)))
        api.create("gputopologies", {"metadata": {"name": "n1"}})
        ready: Queue[ServedPage] = Queue()
        thread = threading.Thread(target=serve, args=(WebOptions(port=0), ready.put))
        thread.start()
        assert ready.get(timeout=60).url.startswith("http://127.0.0.1:")
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert "the page cannot be kept up to date; stopping" in caplog.text


async def test_a_cancelled_task_does_not_stop_the_page() -> None:
    stopped: list[int] = []
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    run._stop_after_failure(task, lambda: stopped.append(1))
    done = asyncio.create_task(asyncio.sleep(0))
    await done
    run._stop_after_failure(done, lambda: stopped.append(1))
    assert stopped == []
