"""Selects which samples a GPUProfile keeps, and from which of them facts are derived."""

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
    """Return the samples from which facts are derived, ascending by time.

    They have the GPU model and the image of the newest sample, because speeds with another model or
    image cannot be compared. The GPUProfile keeps its other samples. It uses them again when a new
    sample has their model and image.

    So in a cluster with two GPU models, the facts describe the model of the newest sample
    (``facts.gpuModel``). gputopo also applies them to jobs on the other model. Such a cluster needs
    one GPUProfile for each GPU model.
    """
    ordered = in_order(samples)
    return [sample for sample in ordered if _kind(sample) == _kind(ordered[-1])]


def retain(samples: Iterable[Sample]) -> list[Sample]:
    """Return at most ``MAX_SAMPLES`` samples, without duplicates, ascending by time.

    A setting is a combination of GPUs, image, links, CPU limit and neighbours, also on the GPU.
    Samples have this
    priority: first the newest sample of each setting, then the samples with the GPU model and image
    of the newest sample of all, then the rest. In the last two groups, the second samples of all
    settings come before any third sample. Within a setting, the newest samples of all runs come
    before any second sample of a run, because facts need many runs.

    If an agent reports a dropped sample again, the function drops the sample again.
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
    """Return one sample for each ``key``, whatever the order of ``samples`` is."""
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
        tuple(sample.gpu_neighbours or ()),
    )


def _by_place_in_run(group: Sequence[Sample]) -> list[tuple[int, Sample]]:
    """Number the samples of each run from 0, newest first; sort all samples by this number."""
    counts = Counter[str]()
    places = []
    for sample in reversed(group):
        places.append((counts[sample.pod_uid], sample))
        counts[sample.pod_uid] += 1
    return sorted(places, key=lambda each: each[0])
