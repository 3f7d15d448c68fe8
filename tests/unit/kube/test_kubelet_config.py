"""The configuration of a kubelet, read from its HTTPS server."""

import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputopo_kube.kubelet_config import (
    KubeletConfigError,
    KubeletCredentials,
    kubelet_endpoint,
    read_kubelet_config,
)
from support.kubelet.configz import TOKEN, KubeletConfigServer, config_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[KubeletConfigServer]:
    async with config_server(tmp_path / "account") as server:
        yield server


async def read(
    server: KubeletConfigServer, *, credentials: KubeletCredentials | None = None
) -> dict[str, Any]:
    files = KubeletCredentials(server.folder / "token", server.folder / "ca.crt")
    endpoint = f"{server.address}:{server.port}"
    return await read_kubelet_config(endpoint, credentials or files, timeout_seconds=20)


async def test_the_configuration_is_read_with_the_token_of_the_service_account(
    server: KubeletConfigServer,
) -> None:
    server.policy = "restricted"
    assert await read(server) == {"topologyManagerPolicy": "restricted", "cpuManagerPolicy": "none"}
    assert server.tokens == [TOKEN]


async def test_a_kubelet_without_a_certificate_of_the_ca_never_gets_the_token(
    server: KubeletConfigServer, tmp_path: Path
) -> None:
    async with config_server(tmp_path / "other") as other:
        files = KubeletCredentials(server.folder / "token", other.folder / "ca.crt")
        with pytest.raises(KubeletConfigError, match="certificate verify failed"):
            await read(server, credentials=files)
        assert server.tokens == []
        insecure = replace(files, ca_file=None)
        found = await read(server, credentials=insecure)
        assert found["topologyManagerPolicy"] == "none"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "status 401: kubelet does not accept tokens"),
        (403, "status 403: the service account needs get on nodes/configz"),
        (302, "status 302$"),
        (599, "status 599$"),
    ],
)
async def test_another_status_than_200_is_an_error_with_a_hint(
    server: KubeletConfigServer, status: int, reason: str
) -> None:
    server.status = status
    with pytest.raises(KubeletConfigError, match=reason):
        await read(server)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"\xff", b'{"kubeletconfig": []}', b"7", b"[" * 100_000],
    ids=["empty", "list", "without configuration", "no UTF-8", "list inside", "number", "deep"],
)
async def test_another_response_than_a_configuration_is_an_error(
    server: KubeletConfigServer, body: bytes
) -> None:
    server.body = body
    with pytest.raises(KubeletConfigError, match=r"kubeletconfig|is not a kubelet's configuration"):
        await read(server)


async def test_a_response_without_end_is_not_kept_in_memory(server: KubeletConfigServer) -> None:
    server.body = b" " * (2**20 + 1)
    with pytest.raises(KubeletConfigError, match="more than 1048576 bytes"):
        await read(server)


async def test_a_kubelet_that_does_not_respond_is_an_error_with_the_limit(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(KubeletConfigError, match=r"no response within 0\.2 s"):
            await read_kubelet_config(
                f"127.0.0.1:{port}",
                KubeletCredentials(tmp_path / "token", None),
                timeout_seconds=0.2,
            )
    with pytest.raises(KubeletConfigError, match=f"https://127.0.0.1:{port}/configz: "):
        await read_kubelet_config(
            f"127.0.0.1:{port}", KubeletCredentials(tmp_path / "token", None), timeout_seconds=20
        )


async def test_a_response_that_arrives_too_slowly_is_an_error(server: KubeletConfigServer) -> None:
    server.slow = True
    with pytest.raises(KubeletConfigError, match=r"no response within 0\.5 s"):
        await read_kubelet_config(
            f"{server.address}:{server.port}",
            KubeletCredentials(server.folder / "token", server.folder / "ca.crt"),
            timeout_seconds=0.5,
        )


async def test_a_missing_token_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(KubeletConfigError, match="/token"):
        await read_kubelet_config(
            "127.0.0.1:1", KubeletCredentials(tmp_path / "token", None), timeout_seconds=20
        )


@pytest.mark.parametrize(
    ("addresses", "port", "endpoint"),
    [
        ([("Hostname", "n1"), ("InternalIP", "10.0.0.1")], 10250, "10.0.0.1:10250"),
        ([("InternalIP", "fd00::1"), ("InternalIP", "10.0.0.1")], 10250, "[fd00::1]:10250"),
    ],
)
def test_the_endpoint_is_the_internal_address_of_the_node(
    addresses: list[tuple[str, str]], port: int, endpoint: str
) -> None:
    status = {
        "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    assert kubelet_endpoint({"status": status}) == endpoint


PORT = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        ({}, "kubeletEndpoint.Port"),
        ({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}, "Port"),
        ({"status": PORT}, "no InternalIP"),
        (
            {"status": {**PORT, "addresses": [{"type": "ExternalIP", "address": "192.0.2.1"}]}},
            "no InternalIP",
        ),
    ],
)
def test_a_node_without_an_endpoint_is_an_error_that_names_the_field(
    node: dict[str, Any], missing: str
) -> None:
    with pytest.raises(KubeletConfigError, match=missing):
        kubelet_endpoint(node)
