"""Which samples a profile keeps."""

from itertools import permutations
from random import Random

from gputopo.api.profile import MAX_SAMPLES, Sample
from gputopo.profiles.retention import current, retain
from support.builders.workload_runs import WORST_MB_PER_S, run_of, sample

RUNS = [f"run-{number}" for number in range(10)]


def many(count: int, seed: int = 0) -> list[Sample]:
    """Return samples of ten runs in four settings."""
    random = Random(seed)  # noqa: S311 - test data
    return [
        sample(
            random.choice(RUNS),
            minute,
            milli_cpu=random.choice([1000, 8000]),
            effective_mb_per_s=random.choice([WORST_MB_PER_S, 48_000]),
        )
        for minute in range(count)
    ]


def test_few_samples_are_all_kept_in_order_of_time() -> None:
    one, two, three = run_of("a", [0.0] * 3)
    assert retain([three, one, two]) == [one, two, three]


def test_duplicates_are_dropped() -> None:
    one, two = run_of("a", [0.0] * 2)
    assert retain([one, two, one]) == [one, two]


def test_choice_of_differing_duplicates_does_not_depend_on_their_order() -> None:
    samples = [sample(log_time=value) for value in (0.0, 0.1, 0.2)]
    assert len({retain(order)[0].micro_steps_per_second for order in permutations(samples)}) == 1


def test_at_most_the_limit_is_kept() -> None:
    assert len(retain(many(300))) == MAX_SAMPLES


def test_setting_with_most_samples_loses_its_oldest() -> None:
    rare = run_of("rare", [0.0] * 5, milli_cpu=1000)
    common = [sample(f"run-{minute}", minute + 10) for minute in range(MAX_SAMPLES)]
    assert retain([*rare, *common]) == [*rare, *common[5:]]


def test_every_run_keeps_its_newest_sample_before_another_run_keeps_more() -> None:
    long = run_of("long", [0.0] * 200)
    short = [sample(f"run-{minute}", minute + 500) for minute in range(20)]
    kept = retain([*long, *short])
    assert kept == [*long[-(MAX_SAMPLES - 20) :], *short]


def test_newest_settings_stay_if_there_are_too_many() -> None:
    samples = [sample("a", cpu, milli_cpu=cpu + 1) for cpu in range(MAX_SAMPLES + 3)]
    assert retain(samples) == samples[3:]


def test_samples_of_an_old_image_make_space_first() -> None:
    old = run_of("old", [0.0] * 40, image_digest="sha256:0")
    new = run_of("new", [0.0] * 40, start=100)
    assert retain([*old, *new]) == [*old[-24:], *new]


def test_dropped_samples_that_are_reported_again_change_nothing() -> None:
    random = Random(1)  # noqa: S311 - test data
    for seed in range(20):
        samples = many(120, seed)
        kept = retain(samples)
        again = random.sample(samples, 30)
        assert retain([*again, *kept]) == kept


def test_samples_with_changing_neighbours_do_not_displace_other_runs() -> None:
    busy = [
        sample("busy", minute, socket_neighbours=[f"a/{minute}", f"b/{minute}"])
        for minute in range(200)
    ]
    other = [sample(f"run-{number}", 300 + number) for number in range(20)]
    kept = retain([*busy, *other])
    assert kept[-20:] == other
    assert len(kept) == MAX_SAMPLES


def test_facts_use_the_model_and_image_of_the_newest_sample() -> None:
    samples = [
        sample(minute=0, gpu_model="A100"),
        sample(minute=1, image_digest="sha256:0"),
        sample(minute=2),
        sample(minute=3),
    ]
    assert current(samples) == samples[2:]
    assert current([*samples, sample(minute=4, gpu_model="A100")])[0] == samples[0]
    assert current([]) == []
