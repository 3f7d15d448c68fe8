"""What GPUProfiles show about workloads that share a GPU."""

from gputopo.sharing.model import MeasuredSharing
from gputopo_scheduling.sharing_facts import measured_sharings, parse_sharing_facts
from gputopo_scheduling.surroundings import parse_workload
from support.builders.sharing_facts import MODEL, pairs, sharing_profile


def measured(*documents: object) -> dict[str, tuple[MeasuredSharing, ...]]:
    known = [parse_workload(each).sharing for each in documents]  # type: ignore[arg-type]
    return measured_sharings([each for each in known if each is not None])


def test_sets_are_measured_if_all_members_have_them() -> None:
    found = measured(*pairs())
    sets = {tuple(each.workloads): each for each in found[MODEL]}
    a, b, c = (f"default/{name}" for name in "abc")
    assert sets.keys() == {(a, a), (a, b), (a, c), (b, c), (a, a, a)}
    assert sets[a, b].speeds == (0.8, 0.7)
    assert sets[a, a, a].speeds == (0.7, 0.7, 0.7)


def test_set_that_one_member_does_not_have_is_unknown() -> None:
    assert measured(sharing_profile("a", ("b", 800)), sharing_profile("b")) == {MODEL: ()}
    assert measured(sharing_profile("a", ("b", 800))) == {MODEL: ()}


def test_models_of_gpus_are_apart_and_the_fewest_samples_count() -> None:
    found = measured(
        sharing_profile("a", ("b", 800), model="H100"),
        sharing_profile("b", ("a", 800)),
        sharing_profile("c", ("d", 800), samples=3),
        sharing_profile("d", ("c", 800), samples=9),
    )
    assert found["H100"] == ()
    [known] = found[MODEL]
    assert (known.workloads, known.samples) == (("default/c", "default/d"), 3)


def test_fact_without_samples_is_left_out() -> None:
    assert measured(sharing_profile("a", ("a", 800), samples=0)) == {MODEL: ()}


def test_facts_that_cannot_be_parsed_are_left_out() -> None:
    assert parse_sharing_facts("default/a", {"gpuModel": 1}) is None
    assert parse_workload({"metadata": {"namespace": "default", "name": "a"}}).sharing is None
    known = parse_workload(sharing_profile("a")).sharing
    assert known is not None
    assert (known.gpu_model, known.workload.name, known.beside) == (MODEL, "default/a", ())


def test_other_facts_in_an_unknown_format_do_not_matter() -> None:
    facts = sharing_profile("a", ("b", 800))["status"]["facts"]
    known = parse_sharing_facts("default/a", facts | {"links": "new", "cpus": [1]})
    assert known is not None
    assert len(known.beside) == 1
