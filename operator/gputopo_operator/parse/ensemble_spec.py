"""Parses a GPUEnsemble, and checks what its schema cannot check."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.api.ensemble import GPUEnsembleSpec, GPUEnsembleStatus
from gputopo.api.readable import readable_status
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.runtime.messages import first_error
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.node_match import NodeAffinity
from gputopo_operator.model.ensembles import Ensemble

_LEAST_RATE, _MOST_RATE = 0.001, 1e9


class _PodRule(BaseModel):
    """The parts of a pod spec that gputopo uses; the rest of it is not checked."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


class _Affinity(_PodRule):
    node_affinity: NodeAffinity | None = None


class _MemberContainer(_PodRule):
    env: list[dict[str, Any]] | None = None


class _PodRules(_PodRule):
    containers: list[_MemberContainer] | None = None
    init_containers: list[_MemberContainer] | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[dict[str, Any]] | None = None


class _Container(_PodRule):
    name: str
    resources: dict[str, dict[str, Any]] = {}


class _PreprocessorPod(_PodRule):
    containers: Annotated[list[_Container], Field(min_length=1)]


class _PodMetadata(_PodRule):
    labels: dict[str, str] = {}


class _PreprocessorTemplate(_PodRule):
    metadata: _PodMetadata = _PodMetadata()
    spec: _PreprocessorPod


class _PodTemplate(_PodRule):
    spec: _PodRules


def parse_ensemble(raw: Document) -> Ensemble:
    """Return a GPUEnsemble; ``spec_error`` and ``status_error`` describe what is invalid."""
    metadata = raw["metadata"]
    spec, spec_error = None, ""
    try:
        spec = GPUEnsembleSpec.model_validate(raw.get("spec", {}))
    except ValidationError as error:
        spec_error = first_error(error, prefix="spec")
    spec_error = spec_error or (_template_error(spec) if spec else "")
    spec_error = spec_error or (_preprocessing_error(spec) if spec else "")
    spec_error = spec_error or (_rate_error(spec) if spec else "")
    status, status_error = readable_status(GPUEnsembleStatus, raw.get("status"))
    return Ensemble(
        key=ObjectKey(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        deleting="deletionTimestamp" in metadata,
        spec=None if spec_error else spec,
        spec_error=spec_error,
        status=status,
        status_error=status_error,
    )


def _template_error(spec: GPUEnsembleSpec) -> str:
    """Return what is wrong with the first invalid template of a GPUJob; empty if all are valid."""
    for member in spec.members:
        prefix = f"spec.members[{member.name}].jobTemplate.spec"
        try:
            job = GPUJobSpec.model_validate({**member.job_template.spec, "gpusPerReplica": 1})
        except ValidationError as error:
            return first_error(error, prefix=prefix)
        try:
            _PodTemplate.model_validate(job.template)
        except ValidationError as error:
            return first_error(error, prefix=f"{prefix}.template")
    return ""


def _preprocessing_error(spec: GPUEnsembleSpec) -> str:
    """Return what is wrong with the preprocessing; empty if it is valid."""
    if spec.preprocessing is None:
        return ""
    for number, member in enumerate(spec.members):
        if member.name.startswith("preprocessor"):
            return (
                f"spec.members[{number}].name: {member.name} begins with preprocessor, as the Jobs"
                " of the preprocessing do; use another name"
            )
    try:
        _PreprocessorTemplate.model_validate(spec.preprocessing.template)
    except ValidationError as error:
        return first_error(error, prefix="spec.preprocessing.template")
    return ""


def _rate_error(spec: GPUEnsembleSpec) -> str:
    """Return the first rate that is too low or too high; empty if there is none.

    The API server checks this too, but its object can be older than the rule.
    """
    cores = spec.preprocessing.throughput if spec.preprocessing else []
    rates = {
        f"members[{member.name}].rates[{each.gpus}]": each.items_per_second
        for member in spec.members
        for each in member.rates
    } | {f"preprocessing.throughput[{each.cores}]": each.items_per_second for each in cores}
    for field, rate in rates.items():
        if not _LEAST_RATE <= float(rate) <= _MOST_RATE:
            return f"spec.{field}.itemsPerSecond: {rate}; must be 0.001 to 1000000000"
    return ""
