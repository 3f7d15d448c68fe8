import socket
from contextlib import closing

from prometheus_client import CollectorRegistry

from gputopo_kube.probes import Probes, Pulse


def test_a_client_that_says_nothing_does_not_keep_its_thread() -> None:
    probes = Probes("127.0.0.1", 0, Pulse(), CollectorRegistry(), silence_seconds=0.2)
    with closing(probes), socket.create_connection(("127.0.0.1", probes.port), 5) as client:
        client.sendall(b"GET /livez")
        assert client.recv(1) == b""
