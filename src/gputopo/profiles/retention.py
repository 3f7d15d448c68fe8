"""Which samples a GPUProfile keeps, and which of them its facts use."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence

from gputopo.api.profile import MAX_SAMPLES, Sample
from gputopo.profiles.comparable import (
    bandwidth_key,
    cpu_limit,
    in_order,
    neighbour_on_node,
    neighbour_on_socket,
)


def current(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples that facts use, ascending by time.

    They are of the GPU model and the image of the newest sample. A new image may run differently,
    and rates of two GPU models cannot be compared. Older samples are kept, and count again when
    the newest sample is of their model and image.

    In a cluster with two GPU models, facts are therefore about the model of the last run
    (``facts.gpuModel``), and jobs on the other model get them too. Such a cluster needs one
    GPUProfile for each GPU model.
    """
    ordered = in_order(samples)
    return [sample for sample in ordered if _kind(sample) == _kind(ordered[-1])]


def retain(samples: Iterable[Sample]) -> list[Sample]:
    """Return at most ``MAX_SAMPLES`` samples, without duplicates, ascending by time.

    Each setting keeps its newest sample; of too many settings, the newest stay. Then come other
    samples of the current GPU model and image, then the rest. In both groups, all settings keep the
    same number of samples if they have so many. A setting keeps the newest sample of each of its
    runs, then the second of each run, and so on, because facts need many runs more than many
    samples of one run.

    Dropped samples that are added again are dropped again, so the result stays the same if an agent
    reports a sample several times.
    """
    ordered = _unique(samples)
    stays = {_kind(sample) for sample in ordered[-1:]}
    priorities = {
        sample.key: (place > 0, place > 0 and _kind(sample) not in stays, place, place_in_run)
        for group in _by_setting(ordered)
        for place, (place_in_run, sample) in enumerate(_by_place_in_run(group))
    }
    ordered.reverse()  # sorting is stable: of equal priority, the newest come first
    ordered.sort(key=lambda sample: priorities[sample.key])
    return in_order(ordered[:MAX_SAMPLES])


def _kind(sample: Sample) -> tuple[str, str]:
    return sample.gpu_model, sample.image_digest


def _unique(samples: Iterable[Sample]) -> list[Sample]:
    """Return one sample for each key; the choice does not depend on the order of the samples."""
    found: dict[tuple[str, str, str], Sample] = {}
    for sample in samples:
        other = found.setdefault(sample.key, sample)
        if other is not sample and other != sample:
            found[sample.key] = min(other, sample, key=Sample.model_dump_json)
    return in_order(found.values())


def _by_setting(ordered: Iterable[Sample]) -> Iterable[Sequence[Sample]]:
    groups = defaultdict[Hashable, list[Sample]](list)
    for sample in ordered:
        groups[_setting(sample)].append(sample)
    return groups.values()


def _setting(sample: Sample) -> Hashable:
    return (
        _kind(sample),
        sample.gpus,
        bandwidth_key(sample),
        cpu_limit(sample),
        neighbour_on_socket(sample),
        neighbour_on_node(sample),
    )


def _by_place_in_run(group: Sequence[Sample]) -> list[tuple[int, Sample]]:
    """Return samples with their place in their run, the newest is 0, by place and then by time."""
    counts = Counter[str]()
    places = []
    for sample in reversed(group):
        places.append((counts[sample.pod_uid], sample))
        counts[sample.pod_uid] += 1
    return sorted(places, key=lambda each: each[0])
