"""The example ``examples/ensemble-preprocessing`` decodes images once for all members."""

import importlib.util
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from support.ports import free_port

FILE = Path(__file__).parents[2] / "examples" / "ensemble-preprocessing" / "pipeline.py"


@pytest.fixture(scope="module")
def pipeline() -> Any:
    spec = importlib.util.spec_from_file_location("pipeline", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_picture_is_decoded_and_mirrored(pipeline: Any, tmp_path: Path) -> None:
    pipeline.FOLDER, pipeline.IMAGES = tmp_path / "images", 1
    pipeline.make_images()
    pixels = pipeline.decode_png((tmp_path / "images" / "0.png").read_bytes())
    assert len(pixels) == 3 * pipeline.SIDE**2
    width = 3 * pipeline.SIDE
    mirrored = pipeline.augment(bytes(range(3)) + pixels[3:], 1)
    bright = pipeline.augment(pixels, 0)
    assert len(mirrored) == len(bright) == len(pixels)
    assert mirrored[width - 3] < mirrored[width - 1]


@contextmanager
def serving(folder: Path, **environment: str) -> Iterator[int]:
    """Run the preprocessor; yield its port."""
    port = free_port()
    known = {"IMAGES": str(folder), "PORT": str(port), "WORKERS": "1", **environment}
    server = subprocess.Popen(
        [sys.executable, str(FILE), "serve"], env={**os.environ, **known}, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == f"serving at port {port}\n".encode()
        yield port
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
    assert server.returncode == 0


def test_two_members_get_the_same_items(pipeline: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as port, ThreadPoolExecutor(2) as threads:
        first, second = threads.map(
            lambda _: list(islice(pipeline.items(f"127.0.0.1:{port}"), 40)), range(2)
        )
    assert set(first) & set(second), "the members were connected at the same time"


def test_member_that_takes_nothing_does_not_stop_the_others(pipeline: Any, tmp_path: Path) -> None:
    with (
        serving(tmp_path, PATIENCE="0.5") as port,
        socket.create_connection(("127.0.0.1", port)),
    ):
        # About 30 items of 147 KiB fit into the queue and the buffers of the stalled member.
        assert len(list(islice(pipeline.items(f"127.0.0.1:{port}"), 100))) == 100


def test_item_that_ends_in_the_middle_is_left_out(pipeline: Any) -> None:
    def send(data: bytes) -> None:
        with server.accept()[0] as connection:
            connection.sendall(data)

    size = struct.Struct("!I").pack
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        ThreadPoolExecutor(1) as threads,
    ):
        sent = threads.map(send, [size(3) + b"abc" + size(3) + b"x", size(2) + b"de"])
        found = islice(pipeline.items(f"127.0.0.1:{server.getsockname()[1]}"), 2)
        assert list(found) == [b"abc", b"de"]
        list(sent)
