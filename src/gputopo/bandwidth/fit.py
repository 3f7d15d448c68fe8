"""Fit equation 2 of the MAPA paper to other measurements, and compute the errors of the fit.

The method is ordinary least squares on the 14 terms of equation 2. A machine has only a few dozen
GPU sets, so the fit has lower errors on the measured sets than on other sets. Use the
cross-validated errors to judge a fit.

The paper reports a relative error of 0.0709, an RMSE of 1.5153 GB/s and an MAE of 7.0539 GB/s. This
RMSE is wrong, because an RMSE is never below the MAE. The authors' script divides the norm of the
31 residuals by 31 instead of sqrt(31). The correct RMSE is 1.5153 * sqrt(31) = 8.44 GB/s. The
paper's 0.0709 is a square: :attr:`FitErrors.relative` of the same fit is sqrt(0.0709) = 0.27.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gputopo.bandwidth.link_mix import FEATURES, LinkClasses, features
from gputopo.bandwidth.samples import BandwidthSamples

_MOST_FOLDS_OF_ONE: Final = 30
"""Up to this number of link mixes, each fold of the cross-validation has only one link mix."""

_FOLDS: Final = 10
_SEED: Final = 1

_OVERFITTED: Final = 2.0
"""Above this ratio of the RMSE on unseen link mixes to that on the samples, the user is warned."""

_NEGLIGIBLE: Final = 1e-3
"""An error in GB/s that is too small to measure."""


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Errors of predictions against measurements.

    Attributes:
        relative: norm of the residuals divided by the norm of the measurements.
        rmse_gb_per_s: root of the mean squared residual.
        mae_gb_per_s: mean absolute residual.
    """

    relative: float
    rmse_gb_per_s: float
    mae_gb_per_s: float


@dataclass(frozen=True, slots=True)
class FitResult:
    """The result of a regression.

    Attributes:
        coefficients: the 14 coefficients of equation 2, in the paper's order.
        sizes: sizes of the rings in the samples, ascending.
        classes: the link classes of equation 2. A class is None if no sample has such a link.
        mixes: number of different link mixes (how many links of each class a ring uses).
        within: errors on the samples of the fit.
        unseen: errors on link mixes that the fit did not use (cross-validation); None if the
            samples have only one link mix.
        folds: number of fits of the cross-validation.
    """

    coefficients: tuple[float, ...]
    sizes: tuple[int, ...]
    classes: LinkClasses
    samples: int
    mixes: int
    within: FitErrors
    unseen: FitErrors | None
    folds: int
    warnings: tuple[str, ...]


def fit(samples: BandwidthSamples) -> FitResult:
    """Fit equation 2 to ``samples``. Equal samples give equal results."""
    counts = np.array([sample.mix for sample in samples.samples], dtype=np.int64)
    measured = np.array([sample.gb_per_s for sample in samples.samples])
    terms = features(counts)
    solution, _, rank, _ = np.linalg.lstsq(terms, measured)
    mixes, mix_of = np.unique(counts, axis=0, return_inverse=True)
    within = _errors(terms @ solution, measured)
    folds = _folds(len(mixes))
    unseen = _cross_validated(terms, measured, folds[mix_of]) if len(mixes) > 1 else None
    result = FitResult(
        coefficients=tuple(solution.tolist()),
        sizes=tuple(np.unique(counts.sum(axis=1)).tolist()),
        classes=_measured_classes(samples.classes, counts),
        samples=len(counts),
        mixes=len(mixes),
        within=within,
        unseen=unseen,
        folds=len(np.unique(folds)) if unseen else 0,
        warnings=(),
    )
    return replace(result, warnings=tuple(_warnings(result, int(rank))))


def _folds(mixes: int) -> NDArray[np.intp]:
    """Return [mixes]: the cross-validation fold of each link mix.

    All samples of one mix are in the same fold. The samples of a fold are predicted by a fit to the
    other folds. So this fit did not use the mixes that it predicts.
    """
    if mixes <= _MOST_FOLDS_OF_ONE:
        return np.arange(mixes)
    return np.random.default_rng(_SEED).permutation(mixes) % _FOLDS


def _cross_validated(
    terms: NDArray[np.float64], measured: NDArray[np.float64], folds: NDArray[np.intp]
) -> FitErrors:
    predicted = np.empty_like(measured)
    for fold in np.unique(folds):
        out = folds == fold
        solution = np.linalg.lstsq(terms[~out], measured[~out])[0]
        predicted[out] = terms[out] @ solution
    return _errors(predicted, measured)


def _errors(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> FitErrors:
    residuals = predicted - measured
    return FitErrors(
        relative=float(np.linalg.norm(residuals) / np.linalg.norm(measured)),
        rmse_gb_per_s=float(np.sqrt(np.mean(residuals**2))),
        mae_gb_per_s=float(np.mean(np.abs(residuals))),
    )


def _measured_classes(classes: LinkClasses, counts: NDArray[np.int64]) -> LinkClasses:
    double, single, pcie = (bool(column.any()) for column in counts.T)
    return LinkClasses(
        classes.double if double else None,
        classes.single if single else None,
        classes.pcie if pcie else None,
    )


def _warnings(result: FitResult, rank: int) -> Iterator[str]:
    if rank < FEATURES:
        yield (
            f"{result.samples} samples of {result.mixes} link mixes determine {rank} of {FEATURES}"
            " coefficients: the smallest coefficients that fit them were chosen"
        )
    if result.unseen is None:
        yield "the samples have only one link mix; the error on other link mixes is unknown"
    elif result.unseen.rmse_gb_per_s > _OVERFITTED * result.within.rmse_gb_per_s + _NEGLIGIBLE:
        yield (
            f"the RMSE is {result.unseen.rmse_gb_per_s:.3g} GB/s on unseen link mixes and"
            f" {result.within.rmse_gb_per_s:.3g} on the samples: use the model only for the link"
            " mixes that were measured"
        )
