"""NVML returns random values at each call: a GPU may be lost, but the agent runs on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings, strategies

from fakenvml.build import build_library
from gputopo.api.topology import from_spec, to_spec
from gputopo.api.v1alpha1 import GPUTopologyStatus
from gputopo_deviceplugin.apiserver.node_pods import PodsVersion
from gputopo_deviceplugin.gpus import nvml, session
from gputopo_deviceplugin.report.node_conditions import ready_condition
from gputopo_deviceplugin.report.status import NodeObservation, build_status, observed_gpus
from support.agent.hardware import watched
from support.property_settings import fuzzed, tried

ERRORS = [*range(1, 31), 999, 12345]
ONE_ERROR_IN = 150
UUIDS = [f"GPU-{index}" for index in range(4)]
BUSES = ["00000000:07:00.0", "0000:07:00.0", "00000000:0A:00.0", b"00000000:0a:00.0", "7", ""]
ODD_TEXTS = ["", "\x00", "\u2028" * 40, "G" * 63, "G" * 64, "x" * 129, "GPU 0", "\U0001f600"]
ODD_NUMBERS = [-2, -1, 0, 1, 9, 64, 99, 100, 255, 2**20, 2**31, 2**63, 2**64 - 1, -(2**31)]

Value = Callable[[Random], Any]


def _any(*values: Any) -> Value:
    return lambda chance: chance.choice(values)


def _mostly(usual: Value, odd: Value) -> Value:
    return lambda chance: (odd if chance.random() < 0.05 else usual)(chance)


def _with(field: str, value: Value) -> Value:
    return lambda chance: SimpleNamespace(**{field: value(chance)})


def _bytes(chance: Random) -> bytes:
    return chance.randbytes(chance.randrange(33))


_NUMBERS = _any(*ODD_NUMBERS)
_BUS = _with("busId", _mostly(_any(*BUSES), _mostly(_bytes, _any(*ODD_TEXTS))))
VALUES: dict[str, Value] = {
    "nvmlInit": _any(None),
    "nvmlShutdown": _any(None),
    "nvmlSystemGetDriverVersion": _any("550.54.15", *ODD_TEXTS),
    "nvmlDeviceGetCount": _mostly(_any(1, 2, 3, 4), _any(0, -1, 66)),
    "nvmlDeviceGetHandleByIndex": _any(*range(6)),
    "nvmlDeviceGetUUID": _mostly(_any(*UUIDS), _any(*ODD_TEXTS)),
    "nvmlDeviceGetMinorNumber": _mostly(_any(*range(8)), _NUMBERS),
    "nvmlDeviceGetPciInfo": _BUS,
    "nvmlDeviceGetName": _mostly(_any("Tesla V100"), _any(*ODD_TEXTS)),
    "nvmlDeviceGetMemoryInfo": _with("total", _mostly(_any(2**34), _NUMBERS)),
    "nvmlDeviceGetMaxPcieLinkGeneration": _mostly(_any(3, 4), _NUMBERS),
    "nvmlDeviceGetMaxPcieLinkWidth": _mostly(_any(16, 8), _NUMBERS),
    "nvmlDeviceGetMigMode": _any([0, 0], [1, 0], [2, 1]),
    "nvmlDeviceGetNvLinkState": _mostly(_any(0, 0, 0, 1), _NUMBERS),
    "nvmlDeviceGetNvLinkRemoteDeviceType": _mostly(_any(0, 1, 2, 255), _NUMBERS),
    "nvmlDeviceGetNvLinkVersion": _mostly(_any(*range(8)), _NUMBERS),
    "nvmlDeviceGetNvLinkRemotePciInfo": _BUS,
    "nvmlDeviceGetMemoryAffinity": _any((), (0,), (1, 0), (0, 2**63), (0,) * 20 + (2**64 - 1,)),
    "nvmlDeviceGetTopologyCommonAncestor": _mostly(_any(0, 10, 20, 30, 40, 50), _NUMBERS),
    "nvmlDeviceGetFieldValues": lambda chance: [
        SimpleNamespace(
            nvmlReturn=chance.choice([0, 3, 15]),
            value=SimpleNamespace(uiVal=chance.choice([0, 0, 1, 2, 3, 4, 99, 2**32 - 1])),
        )
        for _ in range(chance.choice([0, 1, 1, 1]))
    ],
    "nvmlEventSetCreate": _any(0),
    "nvmlEventSetFree": _any(None),
    "nvmlDeviceRegisterEvents": _any(None),
    "nvmlEventSetWait": lambda chance: SimpleNamespace(
        device=chance.randrange(6),
        eventType=chance.choice([0, pynvml.nvmlEventTypeXidCriticalError]),
        eventData=chance.choice([0, 31, 79, 2**64 - 1]),
    ),
}


class AnyNvml:
    """pynvml with random values; each call may fail with any error of the library."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        value = VALUES.get(name)
        return getattr(pynvml, name) if value is None else lambda *_: self._call(value)

    def _call(self, value: Value) -> Any:
        if self._chance.randrange(ONE_ERROR_IN) == 0:
            raise pynvml.NVMLError(self._chance.choice(ERRORS))
        return value(self._chance)


@pytest.fixture(scope="module")
def library_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("lib")).parent


@contextmanager
def returning(chance: Random) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvml, "pynvml", AnyNvml(chance))
        patch.setattr(nvml, "_address", lambda handle: handle)
        patch.setattr(session, "_LISTEN_MILLISECONDS", 0)
        yield


@settings(fuzzed)
@given(seed=strategies.integers(0, 2**64))
def test_any_values_of_nvml_give_a_topology_or_a_reason(library_dir: Path, seed: int) -> None:
    tried("drivers that answer anything")
    watch = watched(library_dir, Path("/nowhere"))
    chance = Random(seed)  # noqa: S311 - repeatable disorder
    known = None
    with returning(chance):
        for _ in range(chance.randint(1, 3)):
            found = watch.look()
            known = found.topology
            assert found.fault != ""
            if known is None:
                assert not found.health
                continue
            assert from_spec(to_spec(known)) == known
            assert set(found.health) == {gpu.uuid for gpu in known.gpus}
            assert "" not in found.health.values()
            observation = NodeObservation(
                hardware=found,
                ready=ready_condition(found, None, registered=True, watched=True),
                gpus=observed_gpus(found.health, {}),
                differing=[],
                pods_version=PodsVersion(1, 1),
                processes_visible=True,
            )
            status = build_status(observation, generation=1, before=GPUTopologyStatus(), now="now")
            assert GPUTopologyStatus.model_validate(status.to_json()) == status
            watch.session.wait_for_xid()
        watch.session.close()
