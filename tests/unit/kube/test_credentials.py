"""Connections of the operator and of the command line: kubeconfigs, tokens and failures."""

import base64
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gputopo_kube import credentials, kubeconfig
from gputopo_kube.errors import CredentialsError, RejectedError, UnavailableError

Requests = list[dict[str, Any]]


class Server:
    """An API server that accepts one token.

    Attributes:
        token: accepted; None accepts requests without one.
        requests: method, path, headers and body of each request.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.token: str | None = None
        self.requests: Requests = []


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            found.requests.append(
                {"method": self.command, "path": self.path, "body": body, **self.headers}
            )
            allowed = (
                found.token is None or self.headers["Authorization"] == f"Bearer {found.token}"
            )
            data = json.dumps({"message": "no token"} if not allowed else {"a": 1}).encode()
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = handle_request  # noqa: N815 - the base's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Log nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Server(f"http://127.0.0.1:{http.server_address[1]}")
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    yield found
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes a kubeconfig with this user and cluster, and selects it."""

    def write(user: dict[str, Any] | None, **cluster: Any) -> Path:
        context = {"cluster": "c"} | ({} if user is None else {"user": "u"})
        config = {
            "current-context": "x",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [] if user is None else [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": context}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(path))
        return path

    return write


def test_the_operator_sends_json_and_its_name(server: Server, configure: Any) -> None:
    configure({"token": "t"}, server=server.url)
    server.token = "t"  # noqa: S105
    with credentials.connected(5.0, "gputopo-operator") as api:
        assert api.request("PATCH", ("apis", "a/b"), {"x": 1}, {"q": "1"}) == {"a": 1}
    [request] = server.requests
    assert (request["method"], request["path"]) == ("PATCH", "/apis/a%2Fb?q=1")
    assert request["body"] == {"x": 1}
    assert request["User-Agent"] == "gputopo-operator"
    assert request["Content-Type"] == "application/merge-patch+json"


def test_a_token_file_is_read_again_when_the_token_is_rejected(
    server: Server, configure: Any, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    configure({"tokenFile": str(token)}, server=server.url)
    server.token = "first"  # noqa: S105
    with credentials.connected(5.0, "operator") as api:
        assert api.get("version") == {"a": 1}
        token.write_text("second\n")
        server.token = "second"  # noqa: S105
        assert api.get("version") == {"a": 1}
        assert credentials.connection_fields()["token"] == "second"  # noqa: S105
        server.token = "third"  # noqa: S105
        with pytest.raises(RejectedError, match="401: no token"):
            api.get("version")


def test_the_operator_reports_a_server_that_is_not_there(configure: Any) -> None:
    configure({}, server="http://127.0.0.1:9")
    with (
        credentials.connected(5.0, "operator") as api,
        pytest.raises(UnavailableError, match="ConnectError"),
    ):
        api.get("version")


def test_kopf_gets_files_beside_the_kubeconfig(configure: Any, tmp_path: Path) -> None:
    configure(
        {"client-certificate": "cert.pem", "client-key": "/key.pem", "username": "me"},
        server="https://api",
        **{"certificate-authority": "ca.pem", "insecure-skip-tls-verify": False},
    )
    found = credentials.connection_fields()
    assert found["server"] == "https://api"
    assert found["username"] == "me"
    assert found["token"] is None
    assert found["ca_path"] == tmp_path / "ca.pem"
    assert found["certificate_path"] == tmp_path / "cert.pem"
    assert found["private_key_path"] == "/key.pem"


def test_kopf_gets_data_before_files(configure: Any) -> None:
    data = base64.b64encode(b"pem").decode()
    user = {"client-certificate": "cert.pem", "client-certificate-data": data}
    configure(user, server="https://api")
    found = credentials.connection_fields()
    assert found["certificate_data"] == data
    assert "certificate_path" not in found


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (None, "context x has no user"),
        ({"exec": EXEC}, "user u has an exec plugin"),
        ({"auth-provider": {"name": "oidc"}}, "user u has an exec plugin or an auth provider"),
    ],
)
def test_users_without_supported_credentials_are_rejected(
    configure: Any, user: dict[str, Any] | None, message: str
) -> None:
    configure(user, server="https://api")
    with pytest.raises(CredentialsError, match=message):
        credentials.connection_fields()


@pytest.mark.parametrize("text", ["{", "current-context: y\nclusters: []\ncontexts: []\n", "a: 1"])
def test_a_kubeconfig_that_cannot_be_read_is_rejected(configure: Any, text: str) -> None:
    configure({}, server="https://api").write_text(text)
    with pytest.raises(CredentialsError, match="kubeconfig: "):
        credentials.connection_fields()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "kubeconfig: .* is empty"),
        ("a: 1", "kubeconfig: .*Expected "),
        ("{", "kubeconfig: .*/kubeconfig is not valid: "),
        ("[1]", "kubeconfig: .*/kubeconfig is not valid: "),
    ],
)
@pytest.mark.parametrize("context", [None, "x"])
def test_the_command_line_rejects_files_that_are_no_kubeconfig(
    configure: Any, text: str, message: str, context: str | None
) -> None:
    configure({}, server="https://api").write_text(text)
    with pytest.raises(CredentialsError, match=message), kubeconfig.connected(context):
        pass


def test_a_missing_kubeconfig_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/kubeconfig")
    with pytest.raises(CredentialsError, match="not found"), credentials.connected(5.0, "operator"):
        pass
    message = "kubeconfig: /nonexistent/kubeconfig not found; set KUBECONFIG"
    with pytest.raises(CredentialsError, match=message), kubeconfig.connected():
        pass


@pytest.mark.parametrize("variable", [None, ""])
def test_without_a_variable_the_default_kubeconfig_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    if variable is not None:
        monkeypatch.setenv("KUBECONFIG", variable)
    message = "kubeconfig: ~/.kube/config not found; set KUBECONFIG"
    with pytest.raises(CredentialsError, match=message), kubeconfig.connected():
        pass


def test_one_of_several_kubeconfigs_may_be_missing(
    configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = configure({"token": "t"}, server="https://api")
    monkeypatch.setenv("KUBECONFIG", f"/nonexistent/kubeconfig:{found}")
    with kubeconfig.connection() as opened:
        assert opened.server == "https://api"


def test_the_command_line_runs_exec_plugins_of_version_1(
    server: Server, configure: Any, tmp_path: Path
) -> None:
    credential = {
        "apiVersion": EXEC["apiVersion"],
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    plugin = tmp_path / "plugin.py"
    plugin.write_text(f"print({json.dumps(json.dumps(credential))})")
    execute = {
        **EXEC,
        "command": sys.executable,
        "args": [str(plugin)],
        "interactiveMode": "Never",
    }
    configure({"exec": execute}, server=server.url)
    server.token = "from-plugin"  # noqa: S105
    with kubeconfig.connected() as api:
        assert api.get("version") == {"a": 1}


def test_the_command_line_merges_the_files_of_kubeconfig(
    server: Server, configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = configure({}, server="http://127.0.0.1:9")
    other = {
        "clusters": [{"name": "d", "cluster": {"server": server.url}}],
        "users": [],
        "contexts": [{"name": "other", "context": {"cluster": "d", "user": "u"}}],
    }
    second = tmp_path / "second"
    second.write_text(json.dumps(other))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    with kubeconfig.connected("other") as api:
        assert api.get("version") == {"a": 1}


def test_the_command_line_names_a_server_that_is_not_there(configure: Any) -> None:
    configure({}, server="http://127.0.0.1:9")
    with (
        kubeconfig.connected() as api,
        pytest.raises(UnavailableError, match=r"API server: http://127.0.0.1:9: .*refused"),
    ):
        api.get("version")


def test_the_command_line_names_a_server_without_tls(server: Server, configure: Any) -> None:
    url = server.url.replace("http", "https")
    configure({}, server=url)
    with kubeconfig.connected() as api, pytest.raises(UnavailableError, match=f"{url}: .*SSL"):
        api.get("version")
