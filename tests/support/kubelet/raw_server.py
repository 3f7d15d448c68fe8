"""A fake pod-resources socket that sends any bytes, by gRPC or without it."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

import grpc

SERVICE = "v1.PodResourcesLister"


class RawKubelet:
    """The next response of the socket.

    Attributes:
        response: the bytes of the message.
        failure: a status that is sent instead.
    """

    def __init__(self) -> None:
        self.response = b""
        self.failure: tuple[grpc.StatusCode, str] | None = None

    def _list(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        if self.failure is not None:
            context.abort(*self.failure)
        return self.response


@contextmanager
def raw_kubelet(path: Path) -> Iterator[RawKubelet]:
    """Serve the socket ``path`` in a thread."""
    kubelet = RawKubelet()
    method = grpc.unary_unary_rpc_method_handler(kubelet._list)
    handler = grpc.method_handlers_generic_handler(
        SERVICE, {"List": method, "GetAllocatableResources": method}
    )
    options = (("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 2**20))
    server = grpc.server(ThreadPoolExecutor(1), handlers=[handler], options=options)
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield kubelet
    finally:
        server.stop(None).wait()


@contextmanager
def garbage(path: Path, response: bytes) -> Iterator[None]:
    """Send these bytes, which are not gRPC, to every client of ``path``."""

    def respond() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(response)

    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=respond)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def spoiled(chance: Random, whole: bytes) -> bytes:
    """Return a changed copy: a part, or with bytes changed, inserted or replaced."""
    at = chance.randrange(len(whole) + 1)
    noise = chance.randbytes(chance.choice([1, 1, 2, 8, 100]))
    kind = chance.randrange(6)
    if kind == 0:
        return whole[:at]
    if kind == 1:
        return whole[:at] + noise + whole[at + len(noise) :]
    if kind == 2:
        return whole[:at] + noise + whole[at:]
    if kind == 3:
        return noise
    if kind == 4:
        return whole * chance.choice([2, 50])
    return bytes([chance.choice([0x0B, 0x0A, 0x0C, 0xFF])]) * chance.choice([1, 200, 5000])
