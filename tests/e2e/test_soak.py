"""A soak test of three minutes: pods come and go while every component is killed."""

from pathlib import Path

import pytest

from localcluster.cluster import Cluster
from longruns import LONG
from showcase.install import Installed
from soaktest import report
from soaktest.run import Options, carry_out

pytestmark = pytest.mark.e2e

SEED = 7


@LONG
def test_three_minutes_of_kills_leave_no_placement_false(
    installed: Installed, local_cluster: Cluster, tmp_path: Path
) -> None:
    options = Options(minutes=3, seed=SEED, log=tmp_path / "soak.log", kill_every_seconds=15)
    result = carry_out(installed, local_cluster, options)
    print("\n".join(report.table(result)))
    assert result.findings == {}
    assert result.figures["kills"] >= 4
    assert result.figures["containers compared"] >= 20
    assert result.figures["pods deleted by force while their processes lived"] >= 1


def test_equal_pods_bound_out_of_order_get_no_gpus_of_each_other(
    installed: Installed, local_cluster: Cluster, tmp_path: Path
) -> None:
    options = Options(minutes=0, seed=SEED, log=tmp_path / "bursts.log", bursts=48)
    result = carry_out(installed, local_cluster, options)
    print("\n".join(report.table(result)))
    assert result.findings == {}
    assert result.figures["intended/observed differences (swaps)"] == 0
    assert result.figures["pairs bound against the order of creation"] > 0
    assert result.figures["kubelet restarts"] >= 1
