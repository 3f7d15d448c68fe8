"""Writes the kubeconfigs of fake API servers."""

import json
from collections.abc import Mapping
from pathlib import Path


def write_kubeconfig(path: Path, url: str, user: Mapping[str, str] | None = None) -> Path:
    """Write a kubeconfig for a server; ``user`` is the client's credentials, by default none."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": dict(user or {})}],
    }
    path.write_text(json.dumps(document))
    return path
