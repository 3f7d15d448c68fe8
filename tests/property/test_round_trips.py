"""Values are equal after they are written and parsed."""

import string

from hypothesis import given
from hypothesis import strategies as st

from gputopo.api.annotations import GpusAnnotation, PlacementAnnotation, parse_gpus, parse_placement
from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.api.quantity import format_bytes, parse_bytes
from gputopo.api.request import RequestAnnotations, format_request, parse_request
from gputopo.api.topology import from_spec, to_spec
from gputopo.api.v1alpha1 import GPUTopologySpec
from gputopo.patterns.model import PatternEdge, PatternKind
from gputopo.placement.model import PolicyName
from gputopo.sensitivity.resolve import Sensitivity
from gputopo.topology.model import NodeTopology
from support.builders.strategies import topologies

ranks = st.integers(0, 15)
edges = st.builds(PatternEdge, ranks, ranks, st.integers(1, 1000))
policies = st.sampled_from(list(PolicyName))
sensitivities = st.sampled_from(list(Sensitivity))
names = st.text(string.ascii_lowercase + string.digits + "-.", min_size=1, max_size=63)
bandwidths = st.integers(0, 10**9)

requests = st.builds(
    RequestAnnotations,
    pattern=st.sampled_from([kind for kind in PatternKind if kind is not PatternKind.CUSTOM]),
    sensitivity=sensitivities,
    policy=st.none() | policies,
) | st.builds(
    RequestAnnotations,
    pattern=st.just(PatternKind.CUSTOM),
    edges=st.lists(edges, min_size=1, max_size=120).map(tuple),
    sensitivity=sensitivities,
    policy=st.none() | policies,
)


@given(topologies())
def test_a_topology_is_equal_after_publication(topology: NodeTopology) -> None:
    text = to_spec(topology).model_dump_json(by_alias=True, exclude_none=True)
    assert from_spec(GPUTopologySpec.model_validate_json(text)) == topology


@given(st.integers(0, 2**60))
def test_bytes_are_equal_after_a_round_trip(count: int) -> None:
    assert parse_bytes(format_bytes(count), "memory") == count


@given(requests)
def test_a_request_is_equal_after_a_round_trip(request: RequestAnnotations) -> None:
    assert parse_request(format_request(request)) == request


@given(
    st.builds(
        GpusAnnotation,
        uid=names,
        node=names,
        generation=st.integers(0, 2**31),
        containers=st.dictionaries(names, st.lists(names, min_size=1, max_size=16), max_size=3),
    )
)
def test_exact_gpus_are_equal_after_a_round_trip(gpus: GpusAnnotation) -> None:
    assert parse_gpus({GPUS_ANNOTATION: gpus.dump()}) == gpus


@given(
    st.builds(
        PlacementAnnotation,
        policy=policies,
        pattern=st.sampled_from(list(PatternKind)),
        sensitive=st.booleans(),
        reason=st.text(),
        model=st.none() | names,
        effective_mb_per_s=st.none() | bandwidths,
        aggregate_mb_per_s=bandwidths,
        preserved_mb_per_s=bandwidths,
        exact=st.booleans(),
        aggregate_bound_mb_per_s=st.none() | bandwidths,
        replay=st.none() | st.dictionaries(names, st.lists(bandwidths)),
    )
)
def test_a_placement_is_equal_after_a_round_trip(placement: PlacementAnnotation) -> None:
    assert parse_placement({PLACEMENT_ANNOTATION: placement.dump()}) == placement
