"""Which pods use more GPU memory than they may have, from check to check."""

import logging
from typing import Any
from unittest.mock import Mock

import pytest

from gputopo_mps.memory import GpuMemory

GIB = 1 << 30


def memory(used_bytes: dict[int, int]) -> GpuMemory:
    """Return the memory of a GPU of 16 GiB whose pod "a" declares 2 GiB and runs process 1."""
    parts: Any = Mock()
    parts.settings.max_pods_per_gpu = 3
    parts.declared.return_value = {"a": 2 * GIB}
    parts.processes.pod_of = {1: "a"}.get
    mode: Any = Mock(memory_bytes=16 * GIB, used_bytes=used_bytes)
    return GpuMemory("GPU-1", Mock(), mode, parts)


def test_a_pod_that_still_exceeds_its_memory_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    used = {1: 3 * GIB}
    found = memory(used)
    with caplog.at_level(logging.WARNING):
        found.check()
        found.check()
        assert [each.pod for each in found.exceeded] == ["a"]
        assert len(caplog.records) == 1
        used[1] = GIB
        found.check()
        assert found.exceeded == []
        used[1] = 3 * GIB
        found.check()
    assert len(caplog.records) == 2
