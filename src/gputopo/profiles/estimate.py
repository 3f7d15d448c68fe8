"""Computes means, differences and 95 % confidence intervals of a few measured values.

All values are natural logarithms of times. So a scatter (standard deviation) of 0.02 means 2 %, and
a factor that multiplies all times changes no difference.

The caller assumes a scatter of the values. An estimate contains the variance that follows from the
assumed scatter, and the squared residuals of the values. The interval uses both, as in a moderated
t-test (Smyth 2004, Statistical Applications in Genetics and Molecular Biology 3(1), section 3).
Without the assumption, a few values that agree by chance would give a too narrow interval.

Example: two runs with an assumed scatter of 0.02 differ by 0.05. The variance of their mean is
``0.02^2 / 2``. The squared residuals, relative to the assumed variance, are ``0.05^2 / (2 * 0.02^2)
= 3.1`` with one degree of freedom. The assumption predicts 1, so the interval is wider.
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

ASSUMED_FREEDOM: Final = 1.0
"""Degrees of freedom of the assumed scatter: it counts as much as the scatter of two values."""

MAX_HALF_WIDTH: Final = 10.0
"""Largest half width of an interval (a factor of 22,000 for times), so that no number overflows."""

_NORMAL: Final = 1.959964  # quantile with infinitely many degrees of freedom
_TWO: Final = 4.302653  # with two
_ONE: Final = 12.706205  # with one


class Estimate(NamedTuple):
    """An estimated logarithm of a time, with the data for its confidence interval.

    Attributes:
        variance: variance of ``value`` if the scatter is as assumed; positive.
        squares: sum of the squared residuals, each divided by its assumed variance.
        freedom: degrees of freedom of ``squares``.
    """

    value: float
    variance: float
    squares: float = 0.0
    freedom: int = 0

    @property
    def half_width(self) -> float:
        """Half of the width of the 95 % confidence interval, at most ``MAX_HALF_WIDTH``.

        The more the observed scatter exceeds the assumed scatter, the less weight the assumption
        has. Otherwise a wrong assumption would make the interval too narrow.
        """
        found = self.squares / self.freedom if self.freedom else 1.0
        assumed = ASSUMED_FREEDOM / max(1.0, found)
        freedom = assumed + self.freedom
        scale = (assumed + self.squares) / freedom
        return min(MAX_HALF_WIDTH, student_t(freedom) * math.sqrt(scale * self.variance))

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper end of the 95 % confidence interval."""
        return self.value - self.half_width, self.value + self.half_width

    def plus(self, squares: float, freedom: int) -> Self:
        """Return the estimate with further squared residuals and their degrees of freedom."""
        return self._replace(squares=self.squares + squares, freedom=self.freedom + freedom)

    def scaled(self, factor: float) -> Self:
        """Return the estimate of the value multiplied by ``factor``."""
        return self._replace(value=factor * self.value, variance=factor**2 * self.variance)


def combined(estimates: Iterable[Estimate]) -> Estimate:
    """Return the mean of independent estimates of one value, weighted by their inverse variances.

    Raises:
        ValueError: if ``estimates`` is empty.
    """
    parts = list(estimates)
    if not parts:
        raise ValueError("estimates: the list is empty")
    weight = sum(1 / part.variance for part in parts)
    value = sum(part.value / part.variance for part in parts) / weight
    scatter = sum((part.value - value) ** 2 / part.variance for part in parts)
    return Estimate(
        value,
        1 / weight,
        scatter + sum(part.squares for part in parts),
        len(parts) - 1 + sum(part.freedom for part in parts),
    )


def total(one: Estimate, other: Estimate) -> Estimate:
    """Return the estimate of ``one + other``; the two estimates must be independent."""
    return Estimate(
        one.value + other.value,
        one.variance + other.variance,
        one.squares + other.squares,
        one.freedom + other.freedom,
    )


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Return the estimate of ``one - other``; the two estimates must be independent."""
    return total(one, other.scaled(-1))


def student_t(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t distribution for at least 1 degree of freedom.

    For 2 or more degrees of freedom, the function uses the expansion 26.7.5 of Abramowitz and
    Stegun. Its last coefficient is changed so that the result for 2 is exact; the error is below
    0.1 %. Below 2, the logarithm of the quantile is interpolated in ``1 / freedom``, and the result
    is up to 3 % too large.
    """
    inverse = 1 / freedom
    share = 2 * inverse - 1  # 1 for one degree, 0 for two
    if share > 0:
        return math.exp((1 - share) * math.log(_TWO) + share * math.log(_ONE))
    return _NORMAL + inverse * (2.3723 + inverse * (2.8225 + inverse * (2.5558 + inverse * 2.1030)))
