"""The example ``examples/ensemble-preprocessing`` decodes images once for all members."""

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


def test_two_members_get_the_same_items(pipeline: Any, tmp_path: Path) -> None:
    port = free_port()
    environment = {"IMAGES": str(tmp_path), "PORT": str(port), "WORKERS": "1"}
    server = subprocess.Popen(
        [sys.executable, str(FILE), "serve"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == f"serving at port {port}\n".encode()
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(
                lambda _: list(islice(pipeline.items(f"127.0.0.1:{port}"), 40)), range(2)
            )
        assert set(first) & set(second), "the members were connected at the same time"
    finally:
        server.terminate()
        server.wait()
    assert server.returncode == 0
    server.stdout.close()
