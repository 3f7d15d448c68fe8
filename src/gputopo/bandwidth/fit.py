"""MAPA's regression, redone on other measurements, and how far it can be trusted.

Ordinary least squares on the 14 terms of equation 2. They are many for the few dozen sets
that a machine has, so errors within the samples flatter: the cross-validated ones count.

The paper gives a relative error of 0.0709, an RMSE of 1.5153 and an MAE of 7.0539 GB/s. No RMSE
is below its MAE: the authors' script divides the norm of the residuals by the number of
samples instead of its root. The true one is 1.5153 * sqrt(31) = 8.44 GB/s; the relative
error is then the square of the one here, which is 0.27.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.link_mix import FEATURES, LinkClasses, features
from gputopo.bandwidth.samples import Samples

_MOST_FOLDS_OF_ONE: Final = 30
"""Up to so many link mixes, each is left out once; of more, a tenth at a time."""

_FOLDS: Final = 10
_SEED: Final = 1

_OVERFITTED: Final = 2.0
"""How many times the error on unseen link mixes may be that on the samples."""

_NOTHING: Final = 1e-3
"""GB/s that no measurement tells apart."""


@dataclass(frozen=True, slots=True)
class Errors:
    """How far predictions are from measurements.

    Attributes:
        relative: norm of the residuals over norm of the measurements.
        rmse_gb_per_s: root of the mean squared residual.
        mae_gb_per_s: mean absolute residual.
    """

    relative: float
    rmse_gb_per_s: float
    mae_gb_per_s: float


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of a regression.

    Attributes:
        coefficients: the 14 of equation 2, in the paper's order.
        sizes: numbers of GPUs that the samples had, ascending.
        classes: what x, y and z stand for; None for those that no sample had.
        samples: how many there were.
        mixes: how many different link mixes they had.
        within: errors on the samples themselves.
        unseen: errors on samples whose link mix the fit had not seen (cross-validation);
            None with a single link mix.
        folds: how many fits that took.
        warnings: what a user should know, in words.
    """

    coefficients: tuple[float, ...]
    sizes: tuple[int, ...]
    classes: LinkClasses
    samples: int
    mixes: int
    within: Errors
    unseen: Errors | None
    folds: int
    warnings: tuple[str, ...]


def fit(samples: Samples) -> Fit:
    """Return equation 2 fitted to ``samples``; the same for the same samples."""
    counts = np.array([sample.mix for sample in samples.samples], dtype=np.int64)
    measured = np.array([sample.gb_per_s for sample in samples.samples])
    terms = features(counts)
    solution, _, rank, _ = np.linalg.lstsq(terms, measured)
    mixes, mix_of = np.unique(counts, axis=0, return_inverse=True)
    within = _errors(terms @ solution, measured)
    folds = _folds(len(mixes))
    unseen = _cross_validated(terms, measured, folds[mix_of]) if len(mixes) > 1 else None
    result = Fit(
        coefficients=tuple(solution.tolist()),
        sizes=tuple(np.unique(counts.sum(axis=1)).tolist()),
        classes=_seen(samples.classes, counts),
        samples=len(counts),
        mixes=len(mixes),
        within=within,
        unseen=unseen,
        folds=len(np.unique(folds)) if unseen else 0,
        warnings=(),
    )
    return replace(result, warnings=tuple(_warnings(result, int(rank))))


def _folds(mixes: int) -> NDArray[np.intp]:
    """Return the fold of each link mix: samples of one mix are left out together.

    Else a fit would be tried on what it has seen, since it predicts the same for both.
    """
    if mixes <= _MOST_FOLDS_OF_ONE:
        return np.arange(mixes)
    return np.random.default_rng(_SEED).permutation(mixes) % _FOLDS


def _cross_validated(
    terms: NDArray[np.float64], measured: NDArray[np.float64], folds: NDArray[np.intp]
) -> Errors:
    predicted = np.empty_like(measured)
    for fold in np.unique(folds):
        out = folds == fold
        solution = np.linalg.lstsq(terms[~out], measured[~out])[0]
        predicted[out] = terms[out] @ solution
    return _errors(predicted, measured)


def _errors(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> Errors:
    residuals = predicted - measured
    return Errors(
        relative=float(np.linalg.norm(residuals) / np.linalg.norm(measured)),
        rmse_gb_per_s=float(np.sqrt(np.mean(residuals**2))),
        mae_gb_per_s=float(np.mean(np.abs(residuals))),
    )


def _seen(classes: LinkClasses, counts: NDArray[np.int64]) -> LinkClasses:
    double, single, pcie = (bool(column.any()) for column in counts.T)
    return LinkClasses(
        classes.double if double else None,
        classes.single if single else None,
        classes.pcie if pcie else None,
    )


def _warnings(result: Fit, rank: int) -> Iterator[str]:
    if rank < FEATURES:
        yield (
            f"{result.samples} samples of {result.mixes} link mixes settle {rank} of {FEATURES}"
            " coefficients: the smallest that agree with them were taken"
        )
    if result.unseen is None:
        yield "one link mix only: nothing says how well others are predicted"
    elif result.unseen.rmse_gb_per_s > _OVERFITTED * result.within.rmse_gb_per_s + _NOTHING:
        yield (
            f"the RMSE is {result.unseen.rmse_gb_per_s:.3g} GB/s on link mixes not seen and"
            f" {result.within.rmse_gb_per_s:.3g} on the samples: rely on it for the link mixes"
            " that were measured only"
        )
