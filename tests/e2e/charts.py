"""The chart on the cluster, with the values that the tests of the moment need.

An upgrade of the chart takes up to a minute. So tests of the same values run one after another, and
the values stay until a test needs others.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from showcase import install
from showcase.install import Installed

Values = Mapping[str, Any]

QUEUE_AND_PAGE: Final = pytest.mark.chart(
    operator={"queue": {"order": "FIFO"}}, web={"enabled": True}
)
"""For modules that need the operator's queue or the page, which do not disturb each other."""


class Chart:
    """The installed chart.

    Args:
        installed: the chart with the common values of all tests.
        folder: for a file with the further values.
    """

    def __init__(self, installed: Installed, folder: Path) -> None:
        self._installed, self._file = installed, folder / "values.yaml"
        self._values: Values | None = {}

    def use(self, values: Values) -> Installed:
        """Install the chart again, unless it has these values beside the common ones."""
        if values != self._values:
            platform = self._installed.platform
            if platform is None:
                pytest.skip(
                    "this test changes values of the chart of a cluster that is not its own"
                )
            self._values = None  # until the upgrade has succeeded
            self._file.write_text(yaml.safe_dump(dict(values)))
            install.install_chart(*self._installed.values, self._file, platform=platform)
            self._values = values
        return self._installed


def values_of(node: pytest.Item | pytest.Collector) -> Values:
    """Return the arguments of the marker ``chart``; without it, there are no further values."""
    marker = node.get_closest_marker("chart")
    return marker.kwargs if marker else {}


def grouped(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return tests by values of the chart: those of the common values first."""
    groups: list[Values] = [{}]
    for item in items:
        if values_of(item) not in groups:
            groups.append(values_of(item))
    return sorted(items, key=lambda item: groups.index(values_of(item)))
