"""The tables of ``docs/studies/sharing.md`` have the figures of the program."""

import re
from pathlib import Path

import pytest

from gputopo_simulate.sharing.evaluation import LeftOut, evaluate, rules
from gputopo_simulate.sharing.generate import OneGpuLoad, generate
from gputopo_simulate.sharing.policies import PolicySettings
from gputopo_simulate.sharing.report import PolicyComparison, compare
from gputopo_simulate.sharing.run import SharingRunSettings, run
from support.sharing import gavel

PAGE = (Path(__file__).parents[4] / "docs/studies/sharing.md").read_text()
LISTS = 30


def table(after: str) -> dict[str, list[str]]:
    """Return the cells of the first table after a text, by the first cell of each row."""
    text = PAGE.split(after, 1)[1]
    rows = [
        line.strip("| ").split(" | ")
        for line in re.findall(r"(?m)^(?:\|.*\n)+", text)[0].splitlines()
    ]
    return {row[0]: row[1:] for row in rows[2:]}


def compared(policies: list[str], load: OneGpuLoad, known: float = 0.5) -> list[PolicyComparison]:
    return compare(
        [
            [
                run(
                    generate(seed, load),
                    gavel(),
                    SharingRunSettings(
                        policy, load.gpus, PolicySettings(known_share=known, seed=seed)
                    ),
                )
                for policy in policies
            ]
            for seed in range(1, LISTS + 1)
        ]
    )


def mix(jobs: int, *models: str) -> OneGpuLoad:
    """Return jobs of 1000 steps each that arrive at once at two GPUs."""
    return OneGpuLoad(jobs, {name: gavel().rate(name) for name in models}, 0, 2, steps=1000)


def cells(found: PolicyComparison) -> list[str]:
    return [
        f"{100 * each.mean:+.1f} ± {100 * (each.half_width or 0):.1f}"
        for each in (found.makespan, found.completion)
    ]


def test_rules_that_know_all_or_nothing() -> None:
    found = table("Rules that know all or nothing:")
    for rule in rules(gavel()):
        assert found[rule.rule] == [f"{100 * rule.shares:.1f}", f"{rule.regret:.3f}"]


@pytest.mark.parametrize("left_out", ["model", "family"])
def test_errors_of_predictions(left_out: LeftOut) -> None:
    rows = re.findall(rf"(?m)^\| {left_out} \| gputopo \| (.*) \|$", PAGE)
    found = evaluate(gavel(), left_out)
    assert rows[0].split(" | ") == [
        f"{found.speed_error:.3f}",
        f"{found.delta_error:.3f}",
        f"{100 * found.wrong_delta:.1f}",
        f"{100 * found.wrong_speed:.1f}",
        f"{found.regret_delta:.3f}",
        f"{found.regret_speed:.3f}",
        f"{100 * found.unknown:.1f}",
        f"{found.regret:.3f}",
    ]


@pytest.mark.parametrize("load", ["0.7", "1", "1.5"])
def test_policies_on_8_gpus(load: str) -> None:
    rates = {name: gavel().rate(name) for name in gavel().models}
    rows = table(f"\nLoad {load}:\n")
    policies = ["never", "always", "thesis", "perfect"]
    for each in compared(policies, OneGpuLoad(300, rates, float(load), 8)):
        row = rows[each.policy]
        assert [row[1], row[3]] == cells(each)
        assert row[4:] == [
            f"{each.mean.p99_slowdown:.2f}",
            f"{each.mean.stretch:.2f}",
            f"{100 * each.mean.wrong:.1f}",
        ]


def test_small_batches_halve_the_makespan() -> None:
    small = [f"ResNet-18 (batch size {batch})" for batch in (16, 32, 64)]
    few, many = (compared(["never", "speed"], mix(jobs, *small), 1.0)[1] for jobs in (6, 60))
    text = f"{-100 * few.makespan.mean:.0f} % less; with 20 jobs each"
    assert f"{text} {-100 * many.makespan.mean:.0f} % less" in PAGE
    assert few.mean.stretch == pytest.approx(1)


def test_sharing_that_loses_is_rejected() -> None:
    losing = [f"Recommendation (batch size {batch})" for batch in (512, 1024)]
    rows = table("## Where sharing loses")
    for each in compared(
        ["never", "always", "speed"], mix(60, *losing, "ResNet-50 (batch size 16)"), 1.0
    ):
        assert [rows[each.policy][1], rows[each.policy][3]] == cells(each)
    assert rows["speed"][1] == "+0.0 ± 0.0"
