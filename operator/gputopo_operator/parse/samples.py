"""Parses the samples of GPUTopologies and GPUProfiles; one order for all: oldest first.

Samples in the unknown format of a newer agent or operator are skipped. An exception would end a
measurement before the operator restores the pod's original CPUs.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from gputopo.api.profile import Sample, valid_samples
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.model.workloads import NodeReport, ProfileEvidence


def samples_of(document: Document) -> tuple[Sample, ...]:
    """Return the samples in the status of a GPUTopology or GPUProfile."""
    return _ordered(valid_samples((document.get("status") or {}).get("samples") or ()))


def decode_samples(texts: Iterable[str]) -> tuple[Sample, ...]:
    """Parse samples in JSON."""
    return _ordered(valid_samples(texts, Sample.model_validate_json))


def evidence_of(profile: ObjectKey, reports: Iterable[NodeReport]) -> ProfileEvidence:
    """Return what all nodes report of the workload with this GPUProfile."""
    texts, running = set[str](), set[str]()
    for report in reports:
        texts.update(report.samples.get(profile, ()))
        running |= report.running.get(profile, frozenset())
    return ProfileEvidence(decode_samples(texts), frozenset(running))


def reported_samples(report: NodeReport) -> tuple[Sample, ...]:
    """Return all samples that a node reports."""
    return decode_samples(chain.from_iterable(report.samples.values()))


def by_pod(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Group samples by the UID of their pod."""
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        found[sample.pod_uid].append(sample)
    return dict(found)


def _ordered(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    return tuple(sorted(samples, key=lambda sample: (sample.time, *sample.key)))
