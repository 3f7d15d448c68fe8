"""Clusters of a test that ``gputopo`` reaches by the kubeconfig of the environment."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.api import static
from support.api.kubeconfig import write_kubeconfig
from support.api.static import StaticApi

Serve = Callable[[StaticApi], StaticApi]
"""Serves a cluster until the end of the test; later command lines read the last one."""


@contextmanager
def serving_clusters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Yield a function that serves a cluster and writes ``folder/kubeconfig`` for it."""
    with ExitStack() as servers:

        def serve(api: StaticApi) -> StaticApi:
            servers.enter_context(static.serving(api))
            path = write_kubeconfig(folder / "kubeconfig", api.url)
            monkeypatch.setenv("KUBECONFIG", str(path))
            return api

        yield serve
