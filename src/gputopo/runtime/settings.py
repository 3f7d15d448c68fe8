"""Load the settings of a program from flags and environment variables; flags have priority."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import first_error

# If a Service has the name of the program, Kubernetes sets variables for this Service in each
# container, such as GPUTOPO_EXTENDER_SERVICE_HOST. They are not settings.
_SERVICE_LINK = re.compile(r"SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?")

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SettingsError(InvalidInputError):
    """A setting is missing, unknown or has a wrong value; the message names the setting."""


class ProgramSettings(BaseModel):
    """Base class of a program's settings. Each setting is a field with description and default.

    Attributes:
        program: name of the program. The field ``some_name`` of ``gputopo-x`` is set by the
            flag ``--some-name`` and by the variable ``GPUTOPO_X_SOME_NAME``.
        purpose: one sentence for ``--help``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    program: ClassVar[str]
    purpose: ClassVar[str]

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="least level logged")
    ] = "info"

    @classmethod
    def load(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> Self:
        """Return the settings from flags and environment variables.

        Raises:
            SettingsError: on an unknown variable, a missing setting or a wrong value.
            SystemExit: on an unknown flag and on ``--help``, as argparse does.
        """
        flags = vars(cls._parser().parse_args(arguments))
        try:
            return cls.model_validate({**cls._variables(environment), **flags})
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            problem = first_error(error).removeprefix(name)
            raise SettingsError(f"{_flag(name)} ({cls.variable(name)}){problem}") from None

    @classmethod
    def variable(cls, name: str) -> str:
        """Return the environment variable of a setting."""
        return f"{cls.program}_{name}".upper().replace("-", "_")

    @classmethod
    def _variables(cls, environment: Mapping[str, str]) -> dict[str, str]:
        settings = {cls.variable(name): name for name in cls.model_fields}
        prefix = cls.variable("")
        for variable in environment:
            if (
                variable.startswith(prefix)
                and variable not in settings
                and not _SERVICE_LINK.fullmatch(variable.removeprefix(prefix))
            ):
                raise SettingsError(f"{variable}: there is no such setting")
        return {settings[name]: value for name, value in environment.items() if name in settings}

    @classmethod
    def _parser(cls) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=cls.program,
            description=cls.purpose,
            epilog=f"Environment variables: {cls.variable('<NAME>')}. Flags have priority.",
            allow_abbrev=False,
        )
        for name, field in cls.model_fields.items():
            default = f"default {str(field.default) or 'empty'}"
            parser.add_argument(
                _flag(name),
                default=argparse.SUPPRESS,
                metavar="VALUE",
                help=f"{field.description} ({'required' if field.is_required() else default})",
            )
        return parser


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
