"""Keys, certificates and kubeconfigs of the cluster."""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from localcluster import settings
from localcluster.commands import run
from localcluster.settings import Node

_DAYS = "365"


@dataclass(frozen=True, slots=True)
class Identity:
    """One certificate.

    Attributes:
        name: file name of its key, certificate and kubeconfig.
        subject: the distinguished name; Kubernetes reads CN as user and O as group.
        alternative_names: DNS names and addresses it serves under, in openssl's notation.
    """

    name: str
    subject: str
    alternative_names: str = ""


def identities(nodes: Iterable[Node]) -> list[Identity]:
    """All certificates of a cluster with these nodes."""
    service = "kubernetes.default.svc"
    api_names = (
        f"DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:{service},"
        f"DNS:{service}.cluster.local,IP:127.0.0.1,IP:{settings.API_SERVICE_ADDRESS},"
        f"IP:{settings.CONTROL_PLANE_ADDRESS}"
    )
    return [
        Identity("etcd", "/CN=etcd", "IP:127.0.0.1"),
        Identity("apiserver", "/CN=kube-apiserver", api_names),
        Identity("admin", "/O=system:masters/CN=admin"),
        Identity("controller-manager", "/CN=system:kube-controller-manager"),
        Identity("scheduler", "/CN=system:kube-scheduler"),
        Identity("proxy", "/CN=system:kube-proxy"),
        *(
            Identity(
                node.name,
                f"/O=system:nodes/CN=system:node:{node.name}",
                f"DNS:{node.name},IP:{node.address}",
            )
            for node in nodes
        ),
    ]


def render_kubeconfig(server: str, authority: bytes, certificate: bytes, key: bytes) -> str:
    """A self-contained kubeconfig (JSON, which is YAML too)."""

    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    cluster = {"server": server, "certificate-authority-data": text(authority)}
    user = {"client-certificate-data": text(certificate), "client-key-data": text(key)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "gputopo",
        "contexts": [{"name": "gputopo", "context": {"cluster": "gputopo", "user": "user"}}],
        "clusters": [{"name": "gputopo", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
    }
    return json.dumps(document, indent=1)


def create(folder: Path, nodes: Iterable[Node]) -> None:
    """Create a new authority and all certificates."""
    folder.mkdir(parents=True, exist_ok=True)
    _create_authority(folder)
    run(["openssl", "genpkey", *_curve(), "-out", folder / "sa.key"])
    run(["openssl", "pkey", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub"])
    for identity in identities(nodes):
        _create_certificate(folder, identity)


def _curve() -> list[str]:
    return ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]


def _new_key(path: Path) -> list[str | Path]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path]


def _create_authority(folder: Path) -> None:
    run(
        [
            *("openssl", "req", "-x509", *_new_key(folder / "ca.key")),
            *("-out", folder / "ca.crt", "-days", _DAYS, "-subj", "/CN=gputopo-local-cluster"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        ]
    )


def _create_certificate(folder: Path, identity: Identity) -> None:
    key, certificate = folder / f"{identity.name}.key", folder / f"{identity.name}.crt"
    extensions = ["basicConstraints=critical,CA:FALSE"]
    extensions += ["keyUsage=critical,digitalSignature", "extendedKeyUsage=clientAuth,serverAuth"]
    if identity.alternative_names:
        extensions.append(f"subjectAltName={identity.alternative_names}")
    run(
        [
            *("openssl", "req", "-x509", *_new_key(key), "-out", certificate),
            *("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"),
            *("-days", _DAYS, "-subj", identity.subject),
            *(word for extension in extensions for word in ("-addext", extension)),
        ]
    )
    kubeconfig = render_kubeconfig(
        settings.API_SERVER,
        (folder / "ca.crt").read_bytes(),
        certificate.read_bytes(),
        key.read_bytes(),
    )
    (folder / f"{identity.name}.kubeconfig").write_text(kubeconfig)
