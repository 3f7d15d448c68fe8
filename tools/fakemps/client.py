"""A client of the simulated MPS: what a training program has in place of CUDA.

It needs Python 3.9 and the standard library only, so that a container can mount this file:

    python3 client.py --memory 1G                 hold memory until the end
    python3 client.py --memory 1G --fault-after 5 cause a fatal fault after 5 s

The program prints ``ready``, and then one line for each error. It ends with the number of the CUDA
error as its last line, and status 1. On SIGTERM it ends with status 0.
"""

import argparse
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

OUT_OF_MEMORY, UNAVAILABLE, FATAL_FAULT, RPC_FAILURE, TERMINATED = 2, 46, 700, 806, 810
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class CudaError(Exception):
    """A call failed, with the number of the CUDA error."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"CUDA error {code}: {message or 'no details'}")
        self.code = code


class Client:
    """A process with memory on a shared GPU. Every method raises ``CudaError`` if it fails."""

    def __init__(self) -> None:
        """Connect to the server, as the first call of CUDA does.

        Without a control daemon, the real CUDA runs without MPS if the compute mode permits it.
        This client fails instead: the simulated GPUs have the mode EXCLUSIVE_PROCESS.
        """
        pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")  # noqa: S108
        with self._connect(pipe / "control") as control:
            found = self._exchange(control, {"connect": True})
        self._server = self._connect(pipe / found["server"])
        limit = os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
        self.server_pid: int = self._exchange(self._server, {"limit": limit})["server"]

    def allocate(self, count_bytes: int) -> None:
        """Allocate device memory; error 2 above the limit."""
        self._exchange(self._server, {"allocate": count_bytes})

    def free(self, count_bytes: int) -> None:
        """Free device memory."""
        self._exchange(self._server, {"allocate": -count_bytes})

    def synchronize(self) -> None:
        """Do nothing; raises the error of the client, if there is one."""
        self._exchange(self._server, {})

    def fault(self) -> None:
        """Cause a fatal fault, such as an access to an invalid address."""
        self._exchange(self._server, {"fault": True})

    def close(self) -> None:
        """Disconnect."""
        self._server.close()

    @staticmethod
    def _connect(path: Path) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError as error:
            connection.close()
            raise CudaError(UNAVAILABLE, f"{path}: {error}") from error
        return connection

    @staticmethod
    def _exchange(connection: socket.socket, message: dict[str, Any]) -> dict[str, Any]:
        data = b""
        try:
            connection.sendall(json.dumps(message).encode() + b"\n")
            while not data.endswith(b"\n"):
                part = connection.recv(65536)
                if not part:
                    raise CudaError(RPC_FAILURE, "the server has closed the connection")
                data += part
        except OSError as error:
            raise CudaError(RPC_FAILURE, str(error)) from error
        reply: dict[str, Any] = json.loads(data)
        if "error" in reply:
            raise CudaError(reply["error"], reply.get("message", ""))
        return reply


def main() -> None:
    """Hold memory on the GPU until the end, an error, or SIGTERM."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--memory", default="0", help="memory to allocate, for example 1G")
    parser.add_argument("--fault-after", type=float, help="cause a fatal fault after so many s")
    parser.add_argument("--step", type=float, default=0.05, help="seconds of a step")
    parser.add_argument("--ignore-term", action="store_true", help="do not end on SIGTERM")
    options = parser.parse_args()
    handler = signal.SIG_IGN if options.ignore_term else lambda *_: sys.exit(0)
    signal.signal(signal.SIGTERM, handler)
    try:
        _work(options)
    except CudaError as error:
        print(error, error.code, sep="\n", flush=True)
        sys.exit(1)


def _work(options: argparse.Namespace) -> None:
    amount = options.memory.rstrip("KMG")
    count_bytes = int(amount) * _UNITS.get(options.memory[len(amount) :], 1)
    began = time.monotonic()
    client = Client()
    client.allocate(count_bytes)
    print("ready", flush=True)
    while True:
        client.synchronize()
        if options.fault_after is not None and time.monotonic() - began >= options.fault_after:
            client.fault()
        time.sleep(options.step)


if __name__ == "__main__":
    main()
