"""The regression: parser of samples, coefficients and errors."""

import math

import numpy as np
import pytest

from gputopo.bandwidth.eq2 import COEFFICIENTS
from gputopo.bandwidth.fit import FitResult, fit
from gputopo.bandwidth.link_mix import DGX1_V100, LinkClass, LinkClasses
from gputopo.bandwidth.samples import BandwidthSample, BandwidthSamples, SampleError, parse_samples
from gputopo.catalogue import named
from gputopo.topology.model import LinkKind, NodeTopology
from support.builders.topologies import PCIE, SINGLE, LinkSpec, node
from support.mapa_oracle import mapa_rows

DGX1 = named("dgx1-v100")

ROWS = [row for row in mapa_rows("dgxv_allocations.csv") if 2 <= int(row["gpus"]) <= 5]


def measured(noise_gb_per_s: float = 0, *, every: int = 1) -> str:
    """Return equation 2's values for the sets of a DGX-1 as a user's file, with noise."""
    random = np.random.default_rng(0)
    lines = ["gpus,bandwidth_gbps"]
    for row in ROWS[::every]:
        gpus = "-".join(str(int(number) - 1) for number in row["set"].split("-"))
        value = float(row["effbw"]) + noise_gb_per_s * abs(random.normal())
        lines.append(f"{gpus},{value}")
    return "\n".join(lines)


def mixes(text: str, topology: NodeTopology | None = None) -> list[tuple[int, int, int]]:
    return [sample.mix for sample in parse_samples(text, topology).samples]


def test_a_set_of_gpus_has_the_links_of_its_best_ring() -> None:
    text = 'gpus,bandwidth_gbps\n0-3,58.9\n"0,3,4",40\n"0, 1, 2",30'
    assert parse_samples(text, DGX1).samples == (
        BandwidthSample((2, 0, 0), 58.9),
        BandwidthSample((2, 0, 1), 40),
        BandwidthSample((1, 2, 0), 30),
    )


def test_counts_of_links_without_topology_are_those_of_a_dgx_1() -> None:
    read = parse_samples("double,single,pcie,bandwidth_gbps\n2,1,0,57.9\n")
    assert read == BandwidthSamples((BandwidthSample((2, 1, 0), 57.9),), DGX1_V100)


def test_order_of_columns_comments_and_empty_lines_do_not_matter() -> None:
    text = "\ufeff# mine\n\nbandwidth_gbps, pcie, single, double\n  # 3 GPUs\n10, 1, 1, 1\n"
    assert mixes(text) == [(1, 1, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: columns are missing; expected gpus,bandwidth_gbps or double,single,pcie,"),
        ("# only\n", "line 1: columns are missing"),
        ("gpus,speed\n0-1,5", "line 1: columns are gpus,speed; expected gpus,bandwidth_gbps or"),
        ("gpus,gpus,bandwidth_gbps\n", "line 1: columns are gpus,gpus,bandwidth_gbps; expected"),
        ("# one\ngpus,bandwidth_gbps\n", "line 2: there are no samples below the columns"),
        ("gpus,bandwidth_gbps\n0-1\n", "line 2: 1 values for 2 columns"),
        ("gpus,bandwidth_gbps\n0,1,5\n", "line 2: 3 values for 2 columns"),
        ("gpus,bandwidth_gbps\n0-1,fast\n", "line 2: bandwidth_gbps: 'fast' is not a number"),
        ("gpus,bandwidth_gbps\n\n0-1,-1\n", "line 3: bandwidth_gbps: '-1' is not in 0.001..1e.06"),
        ("gpus,bandwidth_gbps\n0-1,nan\n", "line 2: bandwidth_gbps: 'nan' is not in 0.001..1e.06"),
        ("gpus,bandwidth_gbps\n0-1,inf\n", "line 2: bandwidth_gbps: 'inf' is not in 0.001..1e.06"),
        ("gpus,bandwidth_gbps\n0-1,1e308\n", "line 2: bandwidth_gbps: '1e308' is not in 0.001"),
        ("gpus,bandwidth_gbps\n0-1,1e-320\n", "line 2: bandwidth_gbps: '1e-320' is not in 0.001"),
        ("gpus,bandwidth_gbps\n0" + "0" * 200_000 + ",5\n", "line 2: field larger than"),
        ("gpus,bandwidth_gbps\n0" + "0" * 500 + ",5\n", "line 2: gpus: '0{79} is not a list"),
        ("c" * 500, "line 1: columns are c{80}; expected"),
        ("gpus,bandwidth_gbps\n0+1,5\n", "line 2: gpus: '0\\+1' is not a list of GPUs"),
        (
            "gpus,bandwidth_gbps\n0-8,5\n",
            "line 2: gpus: '0-8' has GPU 8, which is not",
        ),
        ("gpus,bandwidth_gbps\n1-1,5\n", "line 2: gpus: '1-1' has a GPU twice"),
        ("gpus,bandwidth_gbps\n1,5\n", "line 2: gpus: '1' has one GPU, which has no link"),
    ],
)
def test_a_wrong_file_is_rejected_with_line_column_and_value(text: str, message: str) -> None:
    with pytest.raises(SampleError, match=f"^{message}"):
        parse_samples(text, DGX1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,1,x,5", "line 2: pcie: 'x' is not a number of links"),
        ("-1,1,3,5", "line 2: double: '-1' is not a number of links"),
        ("1,0,0,5", "line 2: double, single, pcie: the sum is 1; a ring has as many links as GPUs"),
        ("9,9,9,5", "line 2: double, single, pcie: the sum is 27; a ring has as many links"),
        ("1,1,0,5", "line 2: double, single, pcie: two columns are 1; two GPUs have one link"),
    ],
)
def test_counts_of_no_ring_are_rejected(row: str, message: str) -> None:
    with pytest.raises(SampleError, match=f"^{message}"):
        parse_samples(f"double,single,pcie,bandwidth_gbps\n{row}\n")


def test_gpus_without_a_topology_are_rejected() -> None:
    with pytest.raises(SampleError, match=r"^line 1: gpus: requires the topology"):
        parse_samples("gpus,bandwidth_gbps\n0-1,5\n")


def test_gpus_of_a_too_large_node_are_rejected() -> None:
    with pytest.raises(SampleError, match=r"^topology: has 17 GPUs; at most 16"):
        parse_samples("gpus,bandwidth_gbps\n0-1,5\n", node(*range(17)))


@pytest.mark.parametrize(
    ("specs", "mix"),
    [
        ({}, (0, 0, 3)),
        ({(0, 1): SINGLE}, (0, 1, 2)),
        ({(0, 1): (LinkKind.NVLINK, 3, 4)}, (1, 0, 2)),
        ({(0, 1): (LinkKind.NVLINK, 3, 4), (1, 2): (LinkKind.NVLINK, 3, 2)}, (1, 1, 1)),
        (dict.fromkeys([(0, 1), (0, 2), (1, 2)], (LinkKind.NVSWITCH, 3, 12)), (3, 0, 0)),
    ],
)
def test_the_faster_nvlinks_of_a_machine_are_x_and_the_slower_y(
    specs: dict[tuple[int, int], LinkSpec], mix: tuple[int, int, int]
) -> None:
    assert mixes("gpus,bandwidth_gbps\n0-1-2,5\n", node(0, 1, 2, links=specs)) == [mix]


@pytest.mark.parametrize(
    "specs",
    [
        {(0, 1): (LinkKind.PCIE, 3, 8)},
        {(0, 1): SINGLE, (0, 2): (LinkKind.NVLINK, 2, 2), (1, 2): (LinkKind.NVLINK, 2, 3)},
    ],
)
def test_a_machine_with_too_many_link_classes_is_rejected(
    specs: dict[tuple[int, int], LinkSpec],
) -> None:
    with pytest.raises(SampleError, match=r"^topology: links are .* two classes of NVLink"):
        parse_samples("gpus,bandwidth_gbps\n0-1-2,5\n", node(0, 1, 2, links=specs))


def test_a_fit_to_values_of_equation_2_gives_its_coefficients() -> None:
    result = fit(parse_samples(measured(), DGX1))
    assert result.coefficients == pytest.approx(COEFFICIENTS, abs=0.01)
    assert (result.samples, result.mixes, result.sizes) == (210, 26, (2, 3, 4, 5))
    assert result.classes == DGX1_V100
    assert result.within.rmse_gb_per_s < 0.001
    assert result.unseen is not None
    assert result.unseen.rmse_gb_per_s < 0.001
    assert result.warnings == ()


def test_cross_validation_shows_overfitting() -> None:
    result = fit(parse_samples(measured(8, every=7), DGX1))
    assert result.unseen is not None
    assert 1 < result.within.rmse_gb_per_s < 8
    assert result.unseen.rmse_gb_per_s > 2 * result.within.rmse_gb_per_s
    assert result.folds == result.mixes
    assert "on unseen link mixes" in result.warnings[-1]


def test_errors_are_those_of_the_residuals() -> None:
    """One link mix measured twice: the fit is the mean."""
    result = one_mix()
    assert result.within.rmse_gb_per_s == pytest.approx(1)
    assert result.within.mae_gb_per_s == pytest.approx(1)
    assert result.within.relative == pytest.approx(math.sqrt(2 / (9**2 + 11**2)))


def one_mix() -> FitResult:
    return fit(parse_samples("double,single,pcie,bandwidth_gbps\n0,0,2,9\n0,0,2,11\n"))


def test_few_samples_are_fitted_with_a_warning() -> None:
    result = one_mix()
    assert result.unseen is None
    assert result.folds == 0
    assert "2 samples of 1 link mixes determine 1 of 14 coefficients" in result.warnings[0]
    assert "only one link mix" in result.warnings[1]


def test_only_measured_link_classes_are_kept() -> None:
    assert one_mix().classes == LinkClasses(
        None, None, LinkClass(PCIE[0], PCIE[1], PCIE[2], 12_000)
    )


def test_many_link_mixes_are_left_out_in_ten_fixed_folds() -> None:
    lines = [
        f"{x},{y},{z},{10 + x + y}"
        for x in range(5)
        for y in range(5)
        for z in range(5)
        if 3 <= x + y + z <= 8
    ]
    samples = parse_samples("\n".join(["double,single,pcie,bandwidth_gbps", *lines]))
    result = fit(samples)
    assert result.mixes > 30
    assert result.folds == 10
    assert result == fit(samples)


def test_the_errors_of_the_paper_are_inconsistent_as_documented() -> None:
    """An RMSE is never below the MAE; the norm over the number of samples explains it."""
    paper_rmse, paper_mae, paper_relative, samples = 1.5153, 7.0539, 0.0709, 31
    assert paper_rmse < paper_mae
    true_rmse = paper_rmse * math.sqrt(samples)
    assert true_rmse == pytest.approx(8.44, abs=0.005)
    assert true_rmse > paper_mae
    root_mean_square = paper_rmse * samples / math.sqrt(paper_relative * samples)
    assert root_mean_square == pytest.approx(31.7, abs=0.05)
    assert true_rmse / root_mean_square == pytest.approx(0.27, abs=0.005)
