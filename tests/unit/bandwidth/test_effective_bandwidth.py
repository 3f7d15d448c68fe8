"""One model for a node and a pattern: by name, or the default."""

import pytest

from gputopo import catalogue
from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.model import ModelError
from gputopo.bandwidth.models import AGGREGATE, EQ2, MODELS, PHYSICAL, default_model, named
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import Pattern, all_to_all, chain, ring

DGX1 = catalogue.named("dgx1-v100")
A100 = catalogue.named("dgx-a100")


def test_one_gpu_has_no_model_and_no_value_with_any_model() -> None:
    for model in (None, *MODELS.values()):
        table = effective_table(A100, ring(1), model)
        assert table.model is None
        assert table.mb_per_s.tolist() == [0] * 8


@pytest.mark.parametrize(
    ("name", "pattern", "model"),
    [
        ("dgx1-v100", ring(5), EQ2),
        ("dgx1-v100", ring(6), PHYSICAL),
        ("dgx1-v100", all_to_all(3), PHYSICAL),
        ("dgx1-p100", ring(3), PHYSICAL),
        ("dgx-a100", ring(3), PHYSICAL),
        ("pcie-8gpu", chain(4), PHYSICAL),
    ],
)
def test_the_default_is_equation_2_in_its_domain_and_the_physical_model_elsewhere(
    name: str, pattern: Pattern, model: object
) -> None:
    topology = catalogue.named(name)
    assert default_model(topology, pattern) is model
    assert effective_table(topology, pattern, None).model is model


def test_the_requested_model_is_used() -> None:
    table = effective_table(DGX1, ring(3), AGGREGATE)
    assert table.model is AGGREGATE
    assert table.mb_per_s.tolist() == embeddings(DGX1, ring(3)).aggregate_mb_per_s.tolist()
    assert table.nbytes == 56 * 8


def test_an_unsupported_model_is_rejected_with_the_reason() -> None:
    with pytest.raises(ModelError, match="model: eq2 cannot be used here: it was fitted on Ring"):
        effective_table(DGX1, ring(6), EQ2)


@pytest.mark.parametrize("name", ["eq2", "aggregate", "physical"])
def test_models_are_found_by_name(name: str) -> None:
    assert named(name).name == name


def test_an_unknown_model_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="model: 'nccl' is not one of eq2, aggregate, physical"):
        named("nccl")


@pytest.mark.parametrize("model", [AGGREGATE, PHYSICAL])
def test_two_models_support_everything(model: object) -> None:
    assert model in MODELS.values()
    for name in catalogue.names():
        assert (
            named(getattr(model, "name", "")).unsupported_reason(catalogue.named(name), chain(2))
            is None
        )
