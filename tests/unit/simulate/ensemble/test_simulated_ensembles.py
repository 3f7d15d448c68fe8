"""Simulated ensembles: models, profiles, policies and statistics."""

from collections.abc import Callable
from itertools import pairwise
from statistics import fmean

import pytest

from gputopo.ensemble.model import EnsembleSettings, PaceMeasure
from gputopo.ensemble.rates import profiling_range
from gputopo.ensemble.starts import free_gpus
from gputopo_simulate.ensemble.generate import (
    ITEMS_PER_EPOCH,
    EnsembleLaw,
    SimulatedModel,
    generate,
    profile,
)
from gputopo_simulate.ensemble.policies import EnsemblePolicy, PolicyRule
from gputopo_simulate.ensemble.report import compare, comparison_document
from gputopo_simulate.ensemble.run import (
    EnsembleExperiment,
    EnsembleResult,
    lower_bound,
    simulate,
)
from gputopo_simulate.errors import SimulationError

SMALL = EnsembleExperiment(12, 3, 4, EnsembleLaw(epochs=(1, 3)))


def one(policy: EnsemblePolicy, experiment: EnsembleExperiment = SMALL) -> EnsembleResult:
    return simulate(experiment, policy, 1)


def test_models_are_drawn_by_the_law() -> None:
    law = EnsembleLaw(epochs=(5, 15))
    models = generate(1, 100, law)
    assert models == generate(1, 100, law)
    assert models != generate(2, 100, law)
    assert all(21 <= model.one_gpu <= 176 for model in models)
    assert {model.items / ITEMS_PER_EPOCH for model in models} == set(range(5, 16))
    assert fmean(model.one_gpu for model in models) == pytest.approx(98, abs=10)


def test_rate_loses_by_gpus_and_nodes() -> None:
    model = SimulatedModel("m", 100, 0.02, 0.05, 1)
    assert model.rate(1, 1) == 100
    assert model.rate(8, 2) == pytest.approx(800 / (1 + 0.14 + 0.05))


def test_profile_measures_what_fleet_measures() -> None:
    models = generate(1, 100, EnsembleLaw())
    members = profile(models, 4, 400, 1, 0.03)
    measured = members[0].rates
    assert measured is not None
    wanted = profiling_range([model.one_gpu for model in models], 4).most
    assert wanted >= 8
    assert [gpus for gpus, _ in measured.measured] == list(range(1, wanted + 1))
    assert measured.most == 400
    errors = [
        rate / model.rate(gpus, -(-gpus // 4)) - 1
        for model, member in zip(models, members, strict=True)
        for gpus, rate in (member.rates.measured if member.rates else ())
    ]
    assert fmean(abs(error) for error in errors) == pytest.approx(0.03 * 0.8, rel=0.1)
    few = profile(models, 4, 3, 1, 0)[0].rates
    assert few is not None
    assert few.at(3) == pytest.approx(models[0].rate(3, 1))


@pytest.mark.parametrize("policy", EnsemblePolicy)
@pytest.mark.parametrize("one_node", [False, True])
def test_every_model_trains_to_its_end_and_no_gpu_is_used_twice(
    policy: EnsemblePolicy,
    one_node: bool,  # noqa: FBT001 - a parameter
) -> None:
    settings = EnsembleSettings(one_node=one_node)
    experiment = EnsembleExperiment(12, 3, 4, EnsembleLaw(epochs=(1, 3)), settings)
    found = one(policy, experiment)
    models = {model.name: model for model in generate(1, 12, experiment.law)}
    done = dict.fromkeys(models, 0.0)
    started: set[str] = set()
    for run in found.runs:
        name = run.placement.member
        assert run.end is not None
        assert run.rate is not None
        restart = settings.restart_seconds if name in started else 0.0
        done[name] += run.rate * max(0.0, run.end - run.start - restart)
        started.add(name)
        active = [
            each.placement for each in found.runs if each.start <= run.start < (each.end or 0)
        ]
        free = {node.name: node.gpus for node in free_gpus(experiment.cluster(), active)}
        used = sum(placement.gpus for placement in active)
        assert sum(free.values()) == 12 - used >= 0
        assert not one_node or len(run.placement.nodes) == 1
    assert done == pytest.approx({name: model.items for name, model in models.items()})
    assert found.makespan >= found.bound
    assert 0 <= found.idle < 1


def test_equal_seeds_give_equal_runs() -> None:
    assert one(EnsemblePolicy.RESTART) == one(EnsemblePolicy.RESTART)


def test_simple_policies_have_their_gpus() -> None:
    def gpus(policy: EnsemblePolicy) -> set[int]:
        experiment = EnsembleExperiment(3, 2, 4, EnsembleLaw(epochs=(1, 1)))
        return {run.placement.gpus for run in one(policy, experiment).runs}

    assert gpus(EnsemblePolicy.ONE_GPU) == {1}
    assert gpus(EnsemblePolicy.ONE_BY_ONE) == {8}
    assert gpus(EnsemblePolicy.EQUAL) == {2}
    assert gpus(EnsemblePolicy.EQUAL_RESTART) >= {2, 4}


def test_members_run_one_after_the_other() -> None:
    runs = one(EnsemblePolicy.ONE_BY_ONE).runs
    for before, after in pairwise(runs):
        assert after.start == before.end


def test_shares_are_divided_again_when_a_member_ends() -> None:
    fixed, again = one(EnsemblePolicy.EQUAL), one(EnsemblePolicy.EQUAL_RESTART)
    assert fixed.restarts == 0
    assert again.restarts > 0
    assert again.makespan < fixed.makespan


def test_restarts_end_earlier_and_use_more_gpus() -> None:
    experiment = EnsembleExperiment(40, 3, 8)
    end, restart = one(EnsemblePolicy.END, experiment), one(EnsemblePolicy.RESTART, experiment)
    assert restart.restarts > 0
    assert restart.makespan < end.makespan
    assert restart.idle < end.idle


def test_policies_have_their_settings() -> None:
    members = profile(generate(1, 4, EnsembleLaw()), 4, 8, 1, 0.03)
    nodes = EnsembleExperiment(4, 2, 4).cluster()
    rules = {each: PolicyRule(each, members, nodes, EnsembleSettings()) for each in EnsemblePolicy}
    assert rules[EnsemblePolicy.FLEET].settings.reference_parts == (1.0,)
    assert rules[EnsemblePolicy.FLEET].settings.pace is PaceMeasure.RATE
    assert rules[EnsemblePolicy.RATE].settings.reference_parts == (1.0, 0.5, 0.25)
    assert rules[EnsemblePolicy.RESTART].settings.restarts
    assert not rules[EnsemblePolicy.END].settings.restarts


def test_bound_is_that_of_all_gpus_or_of_the_longest_model() -> None:
    models = [SimulatedModel("a", 100, 0, 0, 1000), SimulatedModel("b", 100, 0.5, 0, 1000)]
    assert lower_bound(models, EnsembleExperiment(2, 1, 2)) == pytest.approx(10)
    slow = [SimulatedModel("a", 100, 0, 0, 10), SimulatedModel("b", 100, 1, 0, 1000)]
    assert lower_bound(slow, EnsembleExperiment(2, 1, 4)) == pytest.approx(10)


def test_time_to_plan_is_that_of_the_clock() -> None:
    times = iter([5.0, 7.5])
    found = simulate(SMALL, EnsemblePolicy.END, 1, lambda: next(times))
    assert found.plan_seconds == 2.5
    assert compare([[found]])[0].plan_seconds == 2.5
    assert one(EnsemblePolicy.END).plan_seconds is None


def test_changes_are_paired_over_the_seeds() -> None:
    policies = [EnsemblePolicy.END, EnsemblePolicy.ONE_GPU]
    results = [[simulate(SMALL, policy, seed) for policy in policies] for seed in (1, 2, 3)]
    first, other = compare(results)
    assert first.change.mean == first.change.half_width == 0
    ratios = [each[1].makespan / each[0].makespan - 1 for each in results]
    assert other.change.mean == pytest.approx(fmean(ratios))
    assert other.change.half_width is not None
    assert other.change.half_width > 0
    assert other.worst_idle == max(each[1].idle for each in results)
    assert comparison_document(other)["policy"] == "one-gpu"
    assert compare(results[:1])[1].change.half_width is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EnsembleExperiment(models=0), "models: 0; must be at least 1"),
        (lambda: EnsembleExperiment(nodes=0), "nodes: 0"),
        (lambda: EnsembleLaw(rates=(5, 4)), r"rates: 5\.\.4; must be"),
        (lambda: EnsembleLaw(rates=(0, 4)), "rates, epochs, noise: 0"),
        (lambda: EnsembleLaw(noise=1), "rates, epochs, noise: "),
    ],
)
def test_impossible_experiments_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        make()
