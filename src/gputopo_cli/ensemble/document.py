"""Parse the YAML file of an ensemble, in the form of a GPUEnsemble."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.api.profile import GPUProfile
from gputopo.ensemble.model import EnsembleMember, PaceMeasure, UnknownRates, check_names
from gputopo.ensemble.rates import BatchOf, MemberRates
from gputopo.runtime.messages import first_error, quoted
from gputopo_cli.shared.arguments import suggest
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.files import read_text
from gputopo_simulate.gpuprofiles import parse_gpuprofiles, repeated_name

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


def _by_number(value: object, key: str) -> object:
    """Return rates as a dictionary; in a GPUEnsemble of a cluster they are a list."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return value
    found: dict[object, object] = {}
    for each in value:
        number = each.get(key)
        if number in found:
            raise ValueError(f"{key} {number} is listed twice")
        found[number] = each.get("itemsPerSecond")
    return found


_GpuRates = Annotated[
    dict[_Count, _Positive], BeforeValidator(lambda value: _by_number(value, "gpus"))
]
_CoreRates = Annotated[
    dict[_Count, _Positive], BeforeValidator(lambda value: _by_number(value, "cores"))
]
_FIELD: Final = "file"


class _FileModel(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class EnsembleFileMember(_FileModel):
    """``spec.members[]``: a model, its rates or its profile, and how long it trains.

    Attributes:
        rates: items per second by number of GPUs.
        profile: name of a GPUProfile with measured rates.
        batch_size: items of a step of one GPU, or of the whole job.
        steps: steps that are left of a job with one GPU.
        template: pod template; planning ignores it, and ``job_template``.
    """

    name: Annotated[str, Field(min_length=1, max_length=63)]
    rates: _GpuRates | None = None
    profile: str | None = None
    batch_size: _Positive | None = None
    batch_of: BatchOf = BatchOf.GPU
    epochs: _Positive | None = None
    steps: _Positive | None = None
    max_gpus: Annotated[int | None, Field(alias="maxGPUs", ge=1)] = None
    template: Any = None
    job_template: Any = None


class EnsembleFilePreprocessing(_FileModel):
    """``spec.preprocessing``: measured items per second by number of CPU cores."""

    throughput: Annotated[_CoreRates, Field(min_length=1)]
    shared: bool = True
    port: Any = None
    template: Any = None


class EnsembleFileSpec(_FileModel):
    """``spec``: members and limits. ``items_per_epoch`` is required if a member has epochs.

    Planning ignores the fields of type ``Any``, which matter on a cluster.
    """

    members: Annotated[list[EnsembleFileMember], Field(min_length=1, max_length=1000)]
    items_per_epoch: _Positive | None = None
    max_gpus: Annotated[int | None, Field(alias="maxGPUs", ge=1)] = None
    max_gpus_per_member: Annotated[int | None, Field(alias="maxGPUsPerMember", ge=1)] = None
    pace: PaceMeasure = PaceMeasure.RATE
    unknown_rates: UnknownRates = UnknownRates.ONE_GPU
    preprocessing: EnsembleFilePreprocessing | None = None
    suspend: Any = None
    restarts: Any = None
    restart_seconds: Any = None
    spread_percent: Annotated[int | None, Field(ge=0, le=100)] = None
    rate_difference_percent: Any = None


class _EnsembleFile(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kind: Literal["GPUEnsemble"]
    spec: EnsembleFileSpec


@dataclass(frozen=True, slots=True)
class LoadedEnsemble:
    """A valid file: its spec, and the members with their rates."""

    spec: EnsembleFileSpec
    members: tuple[EnsembleMember, ...]


def load_ensemble(path: str, profiles: str | None) -> LoadedEnsemble:
    """Return the ensemble of a YAML file.

    Args:
        path: the file; ``-`` is standard input.
        profiles: file with exported GPUProfiles.

    Raises:
        InputError: if the file is not valid; the message names the field and the value.
        EnsembleError: if a name is listed twice.
        SimulationError: if the profiles are not valid.
    """
    try:
        document = _parse_yaml(read_text(path, _FIELD))
        if document is None:
            raise InputError(
                f"{_FIELD}: {quoted(path)} is empty; expected a GPUEnsemble with kind and spec"
            )
        spec = _EnsembleFile.model_validate(document).spec
    except ValidationError as error:
        names = [field.alias or name for name, field in EnsembleFileMember.model_fields.items()]
        raise InputError(first_error(error, prefix=_FIELD, fields=names)) from None
    known = {} if profiles is None else _parse_profiles(read_text(profiles, "profiles"))
    members = tuple(_member(member, spec, known) for member in spec.members)
    check_names(f"{_FIELD}.spec.members", [member.name for member in members])
    return LoadedEnsemble(spec, members)


def _parse_yaml(text: str) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{_FIELD}: not valid YAML: {first}") from None
    except RecursionError:
        raise InputError(f"{_FIELD}: is nested too deeply") from None


def _parse_profiles(text: str) -> dict[str, GPUProfile]:
    found: dict[str, GPUProfile] = {}
    for where, name, profile in parse_gpuprofiles(text):
        if name in found:
            raise repeated_name(where, name)
        found[name] = profile
    return found


def _member(
    member: EnsembleFileMember, spec: EnsembleFileSpec, profiles: Mapping[str, GPUProfile]
) -> EnsembleMember:
    declared = member.rates or {}
    measured = None
    if member.profile is not None and (member.profile in profiles or not declared):
        measured = _profile_rates(member, member.profile, profiles)
    rates = MemberRates.combined(declared, measured)
    return EnsembleMember(member.name, rates, _items(member, spec), member.max_gpus)


def _profile_rates(
    member: EnsembleFileMember, name: str, profiles: Mapping[str, GPUProfile]
) -> MemberRates | None:
    """Return the rates of a profile; None if it has no measured rate."""
    if name not in profiles:
        hint = suggest(name, profiles) or "; export it with `kubectl get gpuprofiles -o json`"
        raise _rejected(member, "profile", f"{quoted(name)} is not in --profiles{hint}")
    if member.batch_size is None:
        raise _rejected(member, "batchSize", "is required: the profile counts steps, not items")
    facts = profiles[name].status.facts
    scaling = facts.scaling if facts else []
    return MemberRates.of_facts(scaling, member.batch_size, member.batch_of)


def _items(member: EnsembleFileMember, spec: EnsembleFileSpec) -> float | None:
    match (member.epochs, member.steps):
        case (None, None):
            return None
        case (float() as epochs, None):
            if spec.items_per_epoch is None:
                raise InputError(f"{_FIELD}.spec.itemsPerEpoch: is required for epochs of members")
            return epochs * spec.items_per_epoch
        case (None, float() as steps):
            if member.batch_size is None:
                raise _rejected(member, "batchSize", "is required for steps")
            return steps * member.batch_size
    raise _rejected(member, "steps", "has epochs too; state one of them")


def _rejected(member: EnsembleFileMember, field: str, text: str) -> InputError:
    return InputError(f"{_FIELD}.spec.members[{member.name}].{field}: {text}")
