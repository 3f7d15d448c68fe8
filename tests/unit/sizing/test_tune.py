"""The steps of Synergy-Tune."""

from collections.abc import Mapping

from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo.sizing.tune import tune
from support.sizing import matrix, two_speeds

Parts = Mapping[str, list[tuple[str, int, float, float]]]


def parts(result: SizingResult) -> Parts:
    return {each.job: [part[:4] for part in each.parts] for each in result.assignments}


def dgx(*names: str) -> list[ServerCapacity]:
    return [ServerCapacity(name, 8, 24, 500) for name in names]


def insensitive(gpus: int, cpus: float, memory_gb: float) -> SizingRequest:
    return SizingRequest(
        f"insensitive-{cpus:g}-{memory_gb:g}", matrix(gpus, [cpus], [memory_gb], [1])
    )


def sensitive(job: str, cpus: float, memory_gb: float = 62.5) -> SizingRequest:
    return SizingRequest(job, two_speeds(1, (3, 62.5), (cpus, memory_gb), 2.0))


def test_example_of_the_paper_gives_its_table_3() -> None:
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


def test_demand_goes_to_the_server_with_the_least_free_gpus() -> None:
    servers = [ServerCapacity("large", 8, 24, 500), ServerCapacity("small", 2, 24, 500)]
    assert parts(tune(servers, [insensitive(2, 3, 60)])) == {
        "insensitive-3-60": [("small", 2, 3, 60)]
    }


def test_job_whose_demand_does_not_fit_gets_its_share() -> None:
    result = tune(dgx("s1"), [sensitive("a", 12), sensitive("b", 12), sensitive("c", 6)])
    assert parts(result)["c"] == [("s1", 1, 3, 62.5)]


def test_only_as_many_other_jobs_are_reduced_as_needed() -> None:
    """Two jobs have 10 CPUs each, so 4 are left for five jobs of 2: one reduced job suffices."""
    others = [SizingRequest(f"other{n}", matrix(1, [2], [20], [1])) for n in range(5)]
    result = tune(dgx("s1"), [sensitive("a", 10), sensitive("b", 10), *others])
    has = {job: slots[0][2] for job, slots in parts(result).items()}
    assert sorted((has["a"], has["b"])) == [3, 10]
    assert [has[each.job] for each in others] == [2] * 5
    assert not result.waiting


def test_job_that_frees_just_enough_is_reduced_before_one_that_frees_more() -> None:
    others = [SizingRequest(f"other{n}", matrix(1, [3], [20], [1])) for n in range(2)]
    rest = [SizingRequest(f"rest{n}", matrix(1, [1], [20], [1])) for n in range(4)]
    result = tune(dgx("s1"), [sensitive("more", 10), sensitive("less", 6), *rest, *others])
    has = {job: slots[0][2] for job, slots in parts(result).items()}
    assert (has["more"], has["less"]) == (10, 3)


def test_jobs_are_reduced_one_after_another_if_no_single_one_frees_enough() -> None:
    """Three jobs of 4 CPUs and one of 5 use all 17 CPUs; the share of a GPU is 3.4."""
    requests = [*(sensitive(job, 4) for job in "abc"), sensitive("most", 5), insensitive(1, 3, 20)]
    result = tune([ServerCapacity("s1", 5, 17, 500)], requests)
    has = {job: slots[0][2] for job, slots in parts(result).items()}
    assert has["most"] == 3.4
    assert sorted(has[job] for job in "abc") == [3.4, 3.4, 3.4]
    assert has["insensitive-3-20"] == 3


def test_job_with_more_than_its_share_of_memory_is_reduced_if_memory_is_missing() -> None:
    servers = [ServerCapacity("s1", 3, 24, 187.5)]
    others = [SizingRequest(f"other{n}", matrix(1, [1], [60], [1])) for n in range(2)]
    result = tune(servers, [sensitive("cpus", 16), sensitive("memory", 3, 150), *others])
    has = {job: slots[0] for job, slots in parts(result).items()}
    assert has["memory"][3] == 62.5
    assert has["other0"][3] == 60


def test_job_is_not_reduced_for_a_resource_that_is_not_missing() -> None:
    """Memory is missing: six jobs are reduced for it, but not the job with many CPUs."""
    requests = [sensitive("cpus", 5), *(sensitive(f"memory{n}", 3, 72) for n in range(6))]
    result = tune(dgx("s1"), [*requests, insensitive(1, 1, 60)])
    cpus = {job: slots[0][2] for job, slots in parts(result).items()}
    memory_gb = {job: slots[0][3] for job, slots in parts(result).items()}
    assert memory_gb["insensitive-1-60"] == 60
    assert [memory_gb[f"memory{n}"] for n in range(6)] == [62.5] * 6
    assert cpus["cpus"] == 5


def test_job_is_split_in_proportion_over_the_fewest_servers_that_have_its_demand() -> None:
    job = SizingRequest("j", two_speeds(4, (12, 250), (48, 250), 3.0))
    assert parts(tune(dgx("s1", "s2", "s3"), [job])) == {
        "j": [("s1", 2, 24, 125), ("s2", 2, 24, 125)]
    }


def test_job_larger_than_a_server_is_split_and_one_larger_than_the_cluster_waits() -> None:
    result = tune(dgx("s1", "s2"), [insensitive(24, 24, 480), insensitive(12, 12, 240)])
    assert result.waiting == ("insensitive-24-480",)
    assert parts(result) == {"insensitive-12-240": [("s1", 8, 8, 160), ("s2", 4, 4, 80)]}


def test_only_jobs_with_too_many_gpus_are_passed_over() -> None:
    requests = [
        insensitive(6, 1, 1),
        insensitive(4, 2, 2),
        insensitive(2, 3, 3),
        insensitive(1, 4, 4),
    ]
    result = tune(dgx("s1"), requests)
    assert [each.job for each in result.assignments] == ["insensitive-1-1", "insensitive-3-3"]
    assert result.waiting == ("insensitive-2-2", "insensitive-4-4")
