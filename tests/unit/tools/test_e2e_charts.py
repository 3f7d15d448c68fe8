"""End-to-end tests run in the order of the chart values that they need."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import charts
from showcase import install
from showcase.install import Installed
from showcase.kubectl import Kubectl

CDI = {"devicePlugin": {"deviceInjection": "CDI"}}
PLATFORM: Any = object()
PAGE = {"web": {"enabled": True}}


def _item(name: str, values: dict[str, Any] | None = None) -> pytest.Item:
    marker = None if values is None else SimpleNamespace(kwargs=values)
    return cast("pytest.Item", SimpleNamespace(name=name, get_closest_marker=lambda _: marker))


def test_tests_of_equal_values_run_one_after_another_those_of_the_common_values_first() -> None:
    items = [_item("a", CDI), _item("b"), _item("c", PAGE), _item("d", dict(CDI)), _item("e")]
    assert [item.name for item in charts.grouped(items)] == ["b", "e", "a", "d", "c"]


@pytest.fixture
def upgrades(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The last values file of each upgrade; the first upgrade with CDI fails."""
    done: list[str] = []

    def install_chart(*files: Path, platform: object) -> None:
        assert platform is PLATFORM
        done.append(files[-1].read_text())
        if "CDI" in done[-1] and done.count(done[-1]) == 1:
            raise OSError("helm")

    monkeypatch.setattr(install, "install_chart", install_chart)
    return done


def _chart(tmp_path: Path) -> charts.Chart:
    kubectl = Kubectl(Path("kubectl"), Path("kubeconfig"))
    return charts.Chart(Installed(kubectl, "busybox", platform=PLATFORM), tmp_path)


def test_chart_is_upgraded_only_for_other_values(tmp_path: Path, upgrades: list[str]) -> None:
    chart = _chart(tmp_path)
    for values in ({}, PAGE, dict(PAGE), {}):
        chart.use(values)
    assert upgrades == ["web:\n  enabled: true\n", "{}\n"]


def test_failed_upgrade_is_repeated(tmp_path: Path, upgrades: list[str]) -> None:
    chart = _chart(tmp_path)
    with pytest.raises(OSError, match="helm"):
        chart.use(CDI)
    chart.use(CDI)
    assert len(upgrades) == 2
