"""A fit as a file, and as a model that keeps to what it was fitted on."""

import json
from typing import Any

import pytest

from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.fit import fit
from gputopo.bandwidth.fitted import FittedModel, parse_model, to_json
from gputopo.bandwidth.model import ModelError
from gputopo.bandwidth.models import EQ2
from gputopo.bandwidth.samples import parse_samples
from gputopo.catalogue import named
from gputopo.patterns.model import Pattern, all_to_all, ring
from support.mapa_oracle import mapa_rows

DGX1 = named("dgx1-v100")


def document(*sizes: int) -> str:
    """Return the file of a fit to equation 2's values for sets of these sizes."""
    rows = [row for row in mapa_rows("dgxv_allocations.csv") if int(row["gpus"]) in sizes]
    lines = [",".join((row["x"], row["y"], row["z"], row["effbw"])) for row in rows]
    return to_json(fit(parse_samples("\n".join(["double,single,pcie,bandwidth_gbps", *lines]))))


WHOLE = document(2, 3, 4, 5)


def test_a_fit_to_equation_2_predicts_its_values() -> None:
    model = parse_model(WHOLE)
    for size in range(2, 6):
        mine = effective_table(DGX1, ring(size), model)
        mapas = effective_table(DGX1, ring(size), EQ2)
        assert mine.mb_per_s.tolist() == pytest.approx(mapas.mb_per_s.tolist(), abs=1)
        assert mine.model is model


def test_equal_files_are_equal_models() -> None:
    assert parse_model(WHOLE) == parse_model(WHOLE.encode())
    assert hash(parse_model(WHOLE)) == hash(parse_model(WHOLE))
    assert parse_model(WHOLE).name == "fitted"


def test_the_file_has_the_errors_of_the_fit() -> None:
    found = json.loads(WHOLE)
    assert found["version"] == 1
    assert found["sizes"] == [2, 3, 4, 5]
    assert found["links"]["single"] == {
        "kind": "NVLink",
        "version": 2,
        "count": 1,
        "bandwidthMBps": 25_000,
    }
    assert (found["samples"], found["linkMixes"], found["folds"]) == (210, 26, 26)
    assert set(found["inSample"]) == {"relative", "rmseGBps", "maeGBps"}
    assert set(found["crossValidated"]) == set(found["inSample"])


def test_a_fit_without_cross_validation_can_be_written() -> None:
    text = to_json(fit(parse_samples("double,single,pcie,bandwidth_gbps\n0,0,2,9\n")))
    assert json.loads(text)["crossValidated"] is None
    assert parse_model(text).classes.double is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (ring(4), "it was fitted on Ring of 2, 3 GPUs, not Ring of 4"),
        (all_to_all(3), "it was fitted on Ring of 2, 3 GPUs, not AllToAll of 3"),
        (ring(3), None),
        (ring(1), None),
    ],
)
def test_only_measured_sizes_are_supported(pattern: Pattern, reason: str | None) -> None:
    assert parse_model(document(2, 3)).unsupported_reason(DGX1, pattern) == reason


def test_only_measured_links_are_supported() -> None:
    reason = parse_model(WHOLE).unsupported_reason(named("dgx1-p100"), ring(3))
    assert reason == (
        "it was fitted on NVLink 2 x2 (50 GB/s), NVLink 2 x1 (25 GB/s), PCIe 3 x16 (12 GB/s),"
        " not NVLink 1 x1 (20 GB/s)"
    )
    nvlinks_only = to_json(fit(parse_samples("double,single,pcie,bandwidth_gbps\n2,0,0,9\n")))
    assert "not NVLink 2 x1" in str(parse_model(nvlinks_only).unsupported_reason(DGX1, ring(2)))


def test_one_gpu_has_no_value() -> None:
    table = effective_table(DGX1, ring(1), parse_model(WHOLE))
    assert table.model is None


def broken(**changes: object) -> str:
    found: dict[str, Any] = json.loads(WHOLE)
    return json.dumps(found | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "model: Invalid JSON: EOF"),
        ("secret:x:0", "model: Invalid JSON: expected value at line 1 column 1$"),
        ("[]", "model: value: "),
        (broken(version=2), "model: version: 2: Input should be 1"),
        (broken(coefficients=[1.0]), "model: coefficients: .* at least 14 items"),
        (broken(coefficients=[1.0] * 15), "model: coefficients: .* at most 14 items"),
        (broken(coefficients=["1"] * 14), r"model: coefficients\[0\]: '1': .*valid number"),
        (broken(coefficients=[1e13] * 14), r"model: coefficients\[0\]: .*equal to 1000000000000"),
        (broken(sizes=[]), "model: sizes: .* at least 1 item"),
        (broken(sizes=[17]), r"model: sizes\[0\]: 17: .*less than or equal to 16"),
        (broken(equation="eq3"), "model: equation: 'eq3': Input should be 'eq2'"),
        (broken(pattern="Tree"), "model: pattern: 'Tree': Input should be 'Ring'"),
        (broken(more=1), "model: more: there is no such field"),
        (broken(samples=0), "model: samples: "),
        (broken(links={}), "model: links.double: is required"),
    ],
)
def test_a_wrong_file_is_rejected_with_field_and_value(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=f"^{message}"):
        parse_model(text)


def test_a_coefficient_of_nan_is_rejected() -> None:
    text = WHOLE.replace('"coefficients": [', '"coefficients": [NaN,', 1)
    with pytest.raises(ModelError, match="model: "):
        parse_model(text)


def test_a_model_is_a_value() -> None:
    assert isinstance(parse_model(WHOLE), FittedModel)
