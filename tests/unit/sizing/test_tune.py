"""Synergy-Tune step by step."""

from collections.abc import Mapping

from allocations import matrix, two_speeds
from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo.sizing.tune import tune

Parts = Mapping[str, list[tuple[str, int, float, float]]]


def parts(outcome: SizingResult) -> Parts:
    return {grant.job: [part[:4] for part in grant.parts] for grant in outcome.assignments}


def dgx(*names: str) -> list[ServerCapacity]:
    return [ServerCapacity(name, 8, 24, 500) for name in names]


def insensitive(gpus: int, cpus: float, memory_gb: float) -> SizingRequest:
    return SizingRequest(f"calm-{cpus:g}-{memory_gb:g}", matrix(gpus, [cpus], [memory_gb], [1]))


def hungry(job: str, cpus: float, memory_gb: float = 62.5) -> SizingRequest:
    return SizingRequest(job, two_speeds(1, (3, 62.5), (cpus, memory_gb), 2.0))


def test_the_papers_example_comes_out_as_in_its_table_3() -> None:
    demands = {"j1": (23, 400), "j2": (12, 450), "j3": (1, 100), "j4": (12, 50)}
    requests = [
        SizingRequest(
            job, two_speeds(4, (min(cpus, 12), min(memory_gb, 250)), (cpus, memory_gb), 2.0)
        )
        for job, (cpus, memory_gb) in demands.items()
    ]
    assert parts(tune(dgx("s1", "s2"), requests)) == {
        "j1": [("s1", 4, 23, 400)],
        "j2": [("s2", 4, 12, 450)],
        "j3": [("s1", 4, 1, 100)],
        "j4": [("s2", 4, 12, 50)],
    }


def test_a_demand_goes_to_the_server_that_has_just_so_much() -> None:
    servers = [ServerCapacity("roomy", 8, 24, 500), ServerCapacity("snug", 2, 24, 500)]
    assert parts(tune(servers, [insensitive(2, 3, 60)])) == {"calm-3-60": [("snug", 2, 3, 60)]}


def test_a_demand_that_does_not_fit_is_cut_to_the_share_first() -> None:
    outcome = tune(dgx("s1"), [hungry("a", 12), hungry("b", 12), hungry("c", 6)])
    assert parts(outcome)["c"] == [("s1", 1, 3, 62.5)]


def test_then_others_are_cut_and_no_more_of_them_than_must_be() -> None:
    """Five that need 2 CPUs each find 4 left by two that have 10: cutting one will do."""
    calm = [SizingRequest(f"calm{n}", matrix(1, [2], [20], [1])) for n in range(5)]
    outcome = tune(dgx("s1"), [hungry("a", 10), hungry("b", 10), *calm])
    has = {job: where[0][2] for job, where in parts(outcome).items()}
    assert sorted((has["a"], has["b"])) == [3, 10]
    assert [has[each.job] for each in calm] == [2] * 5
    assert not outcome.waiting


def test_who_frees_just_enough_is_cut_before_who_frees_more() -> None:
    calm = [SizingRequest(f"calm{n}", matrix(1, [3], [20], [1])) for n in range(2)]
    rest = [SizingRequest(f"rest{n}", matrix(1, [1], [20], [1])) for n in range(4)]
    outcome = tune(dgx("s1"), [hungry("more", 10), hungry("less", 6), *rest, *calm])
    has = {job: where[0][2] for job, where in parts(outcome).items()}
    assert (has["more"], has["less"]) == (10, 3)


def test_where_no_one_frees_enough_one_after_the_other_is_cut_who_frees_most_first() -> None:
    """Four CPUs each and one that has five leave none of 17; 3.4 are right for each GPU."""
    requests = [*(hungry(job, 4) for job in "abc"), hungry("most", 5), insensitive(1, 3, 20)]
    outcome = tune([ServerCapacity("s1", 5, 17, 500)], requests)
    has = {job: where[0][2] for job, where in parts(outcome).items()}
    assert has["most"] == 3.4
    assert sorted(has[job] for job in "abc") == [3.4, 3.4, 3.4]
    assert has["calm-3-20"] == 3


def test_memory_that_is_lacking_is_taken_from_who_has_more_of_it() -> None:
    servers = [ServerCapacity("s1", 3, 24, 187.5)]
    calm = [SizingRequest(f"calm{n}", matrix(1, [1], [60], [1])) for n in range(2)]
    outcome = tune(servers, [hungry("cpus", 16), hungry("memory", 3, 150), *calm])
    has = {job: where[0] for job, where in parts(outcome).items()}
    assert has["memory"][3] == 62.5
    assert has["calm0"][3] == 60


def test_nobody_is_cut_for_what_does_not_lack() -> None:
    """Memory lacks, more than any one frees: six are cut for it, and not who has CPUs only."""
    requests = [hungry("cpus", 5), *(hungry(f"memory{n}", 3, 72) for n in range(6))]
    outcome = tune(dgx("s1"), [*requests, insensitive(1, 1, 60)])
    cpus = {job: where[0][2] for job, where in parts(outcome).items()}
    memory_gb = {job: where[0][3] for job, where in parts(outcome).items()}
    assert memory_gb["calm-1-60"] == 60
    assert [memory_gb[f"memory{n}"] for n in range(6)] == [62.5] * 6
    assert cpus["cpus"] == 5


def test_a_job_of_several_gpus_is_split_in_proportion_over_as_few_servers_as_have_it_whole() -> (
    None
):
    job = SizingRequest("j", two_speeds(4, (12, 250), (48, 250), 3.0))
    assert parts(tune(dgx("s1", "s2", "s3"), [job])) == {
        "j": [("s1", 2, 24, 125), ("s2", 2, 24, 125)]
    }


def test_a_job_bigger_than_any_server_is_split_and_one_bigger_than_the_cluster_waits() -> None:
    outcome = tune(dgx("s1", "s2"), [insensitive(24, 24, 480), insensitive(12, 12, 240)])
    assert outcome.waiting == ("calm-24-480",)
    assert parts(outcome) == {"calm-12-240": [("s1", 8, 8, 160), ("s2", 4, 4, 80)]}


def test_who_runs_is_decided_by_gpus_in_order_and_whom_they_do_not_suffice_for_is_passed() -> None:
    requests = [
        insensitive(6, 1, 1),
        insensitive(4, 2, 2),
        insensitive(2, 3, 3),
        insensitive(1, 4, 4),
    ]
    outcome = tune(dgx("s1"), requests)
    assert [grant.job for grant in outcome.assignments] == ["calm-1-1", "calm-3-3"]
    assert outcome.waiting == ("calm-2-2", "calm-4-4")
