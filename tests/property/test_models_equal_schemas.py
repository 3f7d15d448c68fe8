"""The pydantic models and the schemas in ``crds/`` accept the same values."""

from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from gputopo.api.ensemble import GPUEnsembleSpec, GPUEnsembleStatus
from gputopo.api.profile import GPUProfileSpec, GPUProfileStatus
from gputopo.api.topology import to_spec
from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus, GPUTopologySpec, GPUTopologyStatus
from gputopo.catalogue import named, names
from support.crd_schemas import broken, instances, of_crd, of_model, root_schema

PARTS: dict[str, tuple[type[BaseModel], str, str]] = {
    "GPUEnsemble.spec": (GPUEnsembleSpec, "gpuensembles", "spec"),
    "GPUEnsemble.status": (GPUEnsembleStatus, "gpuensembles", "status"),
    "GPUJob.spec": (GPUJobSpec, "gpujobs", "spec"),
    "GPUJob.status": (GPUJobStatus, "gpujobs", "status"),
    "GPUProfile.spec": (GPUProfileSpec, "gpuprofiles", "spec"),
    "GPUProfile.status": (GPUProfileStatus, "gpuprofiles", "status"),
    "GPUTopology.spec": (GPUTopologySpec, "gputopologies", "spec"),
    "GPUTopology.status": (GPUTopologyStatus, "gputopologies", "status"),
}

every_part = pytest.mark.parametrize("name", PARTS)


@cache
def common(name: str) -> dict[str, Any]:
    _, plural, part = PARTS[name]
    return of_crd(plural, part)


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    _, plural, part = PARTS[name]
    return jsonschema.Draft202012Validator(root_schema(plural)["properties"][part])


def accepts(model: type[BaseModel], value: object) -> bool:
    try:
        model.model_validate(value)
    except ValidationError:
        return False
    return True


@every_part
def test_both_have_the_same_fields_types_limits_values_and_defaults(name: str) -> None:
    assert of_model(PARTS[name][0]) == common(name)


@every_part
@given(data=st.data())
def test_a_model_keeps_what_the_schema_accepts(name: str, data: st.DataObject) -> None:
    model = PARTS[name][0]
    value = data.draw(instances(common(name)))
    validator(name).validate(value)
    written = model.model_validate(value).to_json()  # type: ignore[attr-defined]
    validator(name).validate(written)
    assert model.model_validate(written) == model.model_validate(value)


@every_part
@given(data=st.data())
def test_both_reject_the_same_wrong_values(name: str, data: st.DataObject) -> None:
    schema = common(name)
    value = data.draw(instances(schema))
    wrongs = list(broken(schema, value))
    what, wrong = data.draw(st.sampled_from(wrongs), label="what is wrong")
    assert not validator(name).is_valid(wrong) or what.startswith("replicas"), what
    assert not accepts(PARTS[name][0], wrong), what


@pytest.mark.parametrize("name", names())
def test_every_topology_of_the_catalogue_fits_the_schema(name: str) -> None:
    validator("GPUTopology.spec").validate(to_spec(named(name, node="n1")).to_json())
