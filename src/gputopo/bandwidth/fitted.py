"""Equation 2 with the coefficients of a user's own fit, and the JSON file of this model."""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.bandwidth.fit import FitResult
from gputopo.bandwidth.link_mix import (
    FEATURES,
    LinkClass,
    LinkClasses,
    effective_mb_per_s,
    link_mixes,
    unknown_link,
)
from gputopo.bandwidth.model import ModelError
from gputopo.patterns.model import MAX_GPUS_PER_POD, Pattern, PatternKind
from gputopo.patterns.table import EmbeddingTable
from gputopo.runtime.messages import first_error
from gputopo.topology.model import LinkKind, NodeTopology


@dataclass(frozen=True, slots=True)
class FittedModel:
    """Equation 2 with fitted coefficients. It supports the ring sizes and links of the samples.

    The attributes are those of :class:`FitResult`.
    """

    coefficients: tuple[float, ...]
    sizes: tuple[int, ...]
    classes: LinkClasses
    name: str = "fitted"

    def unsupported_reason(self, topology: NodeTopology, pattern: Pattern) -> str | None:
        """Return why the model does not support node or pattern, or None if it supports both."""
        if pattern.size == 1:
            return None
        if pattern.kind is not PatternKind.RING or pattern.size not in self.sizes:
            sizes = ", ".join(map(str, self.sizes))
            return f"it was fitted on Ring of {sizes} GPUs, not {pattern.kind} of {pattern.size}"
        if (link := unknown_link(self.classes, topology.links)) is not None:
            return f"it was fitted on {self.classes}, not {LinkClass.from_link(link)}"
        return None

    def effective_mb_per_s(
        self, topology: NodeTopology, pattern: Pattern, table: EmbeddingTable
    ) -> NDArray[np.int64]:
        """Return the value of equation 2 for each GPU set (row of ``table``), in whole MB/s."""
        mixes = link_mixes(topology, pattern, table, self.classes)
        return effective_mb_per_s(self.coefficients, mixes)


def to_json(result: FitResult) -> str:
    """Return a fit as the JSON file that :func:`parse_model` reads."""
    return _ModelFile.from_fit(result).model_dump_json(by_alias=True, indent=2) + "\n"


def parse_model(text: str | bytes, where: str = "model") -> FittedModel:
    """Return the model that the text of a JSON file describes.

    Raises:
        ModelError: on a wrong field; the message begins with ``where``, and names the field and its
            value.
    """
    try:
        return _ModelFile.model_validate_json(text).model()
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        # The input of this error is the whole text.
        reason = detail["msg"] if detail["type"] == "json_invalid" else first_error(error)
        raise ModelError(f"{where}: {reason}") from None


class _FilePart(BaseModel):
    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        from_attributes=True,
    )


class _LinkPart(_FilePart):
    kind: Annotated[LinkKind, Field(strict=False)]
    version: Annotated[int, Field(ge=1)]
    count: Annotated[int, Field(ge=1)]
    bandwidth_mb_per_s: Annotated[int, Field(ge=1, alias="bandwidthMBps")]

    def link_class(self) -> LinkClass:
        return LinkClass(self.kind, self.version, self.count, self.bandwidth_mb_per_s)


class _LinksPart(_FilePart):
    double: _LinkPart | None
    single: _LinkPart | None
    pcie: _LinkPart | None


class _ErrorsPart(_FilePart):
    relative: FiniteFloat
    rmse_gb_per_s: Annotated[FiniteFloat, Field(alias="rmseGBps")]
    mae_gb_per_s: Annotated[FiniteFloat, Field(alias="maeGBps")]


_Size = Annotated[int, Field(ge=2, le=MAX_GPUS_PER_POD)]


_Coefficient = Annotated[float, Field(ge=-1e12, le=1e12)]
"""With coefficients in this range, values for up to 16 links fit into 64 bits."""


class _ModelFile(_FilePart):
    version: Literal[1]
    equation: Literal["eq2"]
    pattern: Literal["Ring"]
    coefficients: Annotated[
        tuple[_Coefficient, ...], Field(min_length=FEATURES, max_length=FEATURES)
    ]
    sizes: Annotated[tuple[_Size, ...], Field(min_length=1)]
    links: _LinksPart
    samples: Annotated[int, Field(ge=1)]
    link_mixes: Annotated[int, Field(ge=1)]
    in_sample: _ErrorsPart
    cross_validated: _ErrorsPart | None
    folds: Annotated[int, Field(ge=0)]
    warnings: tuple[str, ...]

    @classmethod
    def from_fit(cls, result: FitResult) -> Self:
        unseen = result.unseen
        return cls(
            version=1,
            equation="eq2",
            pattern="Ring",
            coefficients=result.coefficients,
            sizes=result.sizes,
            links=_LinksPart.model_validate(result.classes),
            samples=result.samples,
            link_mixes=result.mixes,
            in_sample=_ErrorsPart.model_validate(result.within),
            cross_validated=None if unseen is None else _ErrorsPart.model_validate(unseen),
            folds=result.folds,
            warnings=result.warnings,
        )

    def model(self) -> FittedModel:
        links = (self.links.double, self.links.single, self.links.pcie)
        classes = LinkClasses(*(None if link is None else link.link_class() for link in links))
        return FittedModel(self.coefficients, self.sizes, classes)
