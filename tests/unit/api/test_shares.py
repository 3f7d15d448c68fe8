"""Names of shares, and the annotations of sharing pods."""

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import (
    SHARING_IF_SLOW_ANNOTATION,
    SHARING_MAX_SLOWDOWN_ANNOTATION,
    SHARING_MEMORY_ANNOTATION,
    SHARING_TERMINATION_ANNOTATION,
)
from gputopo.api.profile import MAX_SHARES
from gputopo.api.shares import (
    SERVER_BYTES,
    SharingLimits,
    conflicting,
    format_sharing,
    gpu_of,
    is_share,
    parse_sharing,
    share_id,
    share_resource,
    usable_bytes,
)
from gputopo.api.v1alpha1 import SharingSpec
from gputopo.topology.model import GpuUuid

GPU = GpuUuid("GPU-1b2c")
GIB = 2**30


def test_share_has_the_name_of_its_gpu() -> None:
    share = share_id(GPU, 47)
    assert (share, gpu_of(share), gpu_of(GPU)) == ("GPU-1b2c::47", GPU, GPU)
    assert (is_share(share), is_share(GPU)) == (True, False)
    assert share_resource("nvidia.com/gpu") == "nvidia.com/gpu-share"


def test_share_excludes_itself_and_the_gpu_and_the_gpu_all_shares() -> None:
    shares = {share_id(GPU, number) for number in range(MAX_SHARES)}
    assert conflicting(GPU) == {GPU, *shares}
    for share in shares:
        assert conflicting(share) == {GPU, share}


def test_memory_without_a_declaration_is_an_equal_part() -> None:
    gpu = 16 * GIB + SERVER_BYTES
    assert SharingLimits().memory_on(gpu, 4) == 4 * GIB
    assert SharingLimits(memory_bytes=GIB).memory_on(gpu, 4) == GIB
    assert sum(SharingLimits().memory_on(gpu, 3) for _ in range(3)) <= usable_bytes(gpu)
    assert usable_bytes(SERVER_BYTES - 1) == 0


@pytest.mark.parametrize(
    "limits",
    [
        SharingLimits(),
        SharingLimits(3 * GIB, 0, moves=True, ends_itself=True),
        SharingLimits(1, 1000),
        SharingLimits(2**53 - 1, None, ends_itself=True),
    ],
)
def test_annotations_are_the_inverse_of_limits(limits: SharingLimits) -> None:
    assert parse_sharing(format_sharing(limits)) == limits


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (SHARING_MEMORY_ANNOTATION, "", "'' is not an amount of memory such as 4Gi"),
        (SHARING_MEMORY_ANNOTATION, "0", "is not an amount of memory"),
        (SHARING_MEMORY_ANNOTATION, "-1Gi", "is not an amount of memory"),
        (SHARING_MEMORY_ANNOTATION, "9007199254740992", "is not an amount of memory"),
        (SHARING_MEMORY_ANNOTATION, "four", "is not an amount of memory"),
        (SHARING_MEMORY_ANNOTATION, "9" * 5000, "is not an amount of memory"),
        (SHARING_MEMORY_ANNOTATION, "0" * 5000 + "1", "is not an amount of memory"),
        (SHARING_MEMORY_ANNOTATION, "\u0665Gi", "is not an amount of memory"),
        (SHARING_MAX_SLOWDOWN_ANNOTATION, "", "is not a whole number of percent"),
        (SHARING_MAX_SLOWDOWN_ANNOTATION, "-1", "is not a whole number of percent"),
        (SHARING_MAX_SLOWDOWN_ANNOTATION, "1001", "from 0 to 1000"),
        (SHARING_MAX_SLOWDOWN_ANNOTATION, "00050", "is not a whole number of percent"),
        (SHARING_MAX_SLOWDOWN_ANNOTATION, "\u0665", "is not a whole number of percent"),
        (SHARING_MAX_SLOWDOWN_ANNOTATION, "1.5", "is not a whole number of percent"),
        (SHARING_IF_SLOW_ANNOTATION, "move", "'move' is not one of Report, Move"),
        (SHARING_TERMINATION_ANNOTATION, "", "'' is not one of Client, Program"),
    ],
)
def test_wrong_annotation_is_rejected(name: str, text: str, message: str) -> None:
    with pytest.raises(AnnotationError, match=message) as rejected:
        parse_sharing({name: text})
    assert str(rejected.value).startswith(f"{name}: ")


def test_spec_of_a_gpujob_has_the_same_limits() -> None:
    spec = SharingSpec(
        mode="Allowed",
        memory="3Gi",
        max_slowdown_percent=20,
        termination="Program",
        if_slow="Move",
    )
    assert spec.limits == SharingLimits(3 * GIB, 20, moves=True, ends_itself=True)
    assert SharingSpec(mode="Allowed").limits == SharingLimits()
