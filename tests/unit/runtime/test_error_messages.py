from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gputopo.runtime.messages import first_error, quoted, shortened


class Pump(BaseModel):
    model_config = ConfigDict(extra="forbid")

    power: int
    valves: list[Annotated[int, Field(ge=0)]] = []


def message(document: object, prefix: str = "") -> str:
    with pytest.raises(ValidationError) as rejected:
        Pump.model_validate(document)
    return first_error(rejected.value, prefix=prefix, fields=list(Pump.model_fields))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, "power: is required"),
        ({"power": 1, "valves": [0, -2]}, "valves[1]: -2: Input should be"),
        ({"power": 1, "powr": 2}, "powr: there is no such field; did you mean power?"),
        ({"power": 1, "color": 2}, "color: there is no such field"),
        (7, "value: 7: Input should be a valid dictionary"),
        ({"power": "x" * 200}, f"power: '{'x' * 79}...: Input should be"),
        ({"power": 1, "x" * 200: 2}, f"{'x' * 80}...: there is no such field"),
    ],
)
def test_an_error_names_the_field_and_the_value(document: object, expected: str) -> None:
    assert message(document).startswith(expected)


def test_a_prefix_is_the_path_of_the_validated_object() -> None:
    assert message({}, prefix="spec") == "spec.power: is required"
    assert message(7, prefix="spec").startswith("spec: 7: ")


def test_parts_of_the_path_that_are_no_fields_are_skipped() -> None:
    with pytest.raises(ValidationError) as rejected:
        Pump.model_validate({})
    assert first_error(rejected.value, prefix="pump", skip={"power"}) == "pump: is required"


def test_a_quoted_value_stays_on_one_line() -> None:
    assert quoted("a\nb") == r"'a\nb'"


@pytest.mark.parametrize(("text", "expected"), [("x" * 8, "x" * 8), ("x" * 9, "xxxxx...")])
def test_long_text_is_shortened_to_its_limit(text: str, expected: str) -> None:
    assert shortened(text, 8) == expected
