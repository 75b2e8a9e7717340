"""The formulas of the Flink Kubernetes operator's autoscaler, each a function of arrays.

Written from the published behaviour of the operator (its documentation, its options and its source as of
July 2026). Words: *rate* is in records per second of the whole vertex; the *true rate* is what it would
process were it busy all the time; the *target rate* is what it must process so that nothing piles up.
"""

from __future__ import annotations

import numpy as np

from trimtab.stream_autoscaling.problem import Floats, Graph, Integers

__all__ = [
    "busiest_subtask",
    "capacity_needed",
    "chosen_rate",
    "edge_ratios",
    "mean_observed",
    "observed_rate",
    "scalability",
    "scale_factor",
    "scaled_parallelism",
    "true_rate",
]


def busiest_subtask(busy: Floats, parallelism: Integers, key_groups: Integers) -> Floats:
    """Busy share of the subtask that has most key groups.

    The operator takes the largest busy time of all subtasks; monitoring here tells the mean of a vertex, from
    which the largest follows as far as it is due to uneven key groups: 128 groups on 50 subtasks give some
    of them 3, and 3 * 50 / 128 = 1.17 times the mean.

    >>> busiest_subtask(np.array([0.5]), np.array([50]), np.array([128])).round(4).tolist()
    [0.5859]
    """
    groups, subtasks = np.maximum(key_groups, 1), np.maximum(parallelism, 1)
    largest = np.ceil(groups / subtasks) * subtasks / groups
    return np.minimum(busy * np.where(key_groups > 0, largest, 1.0), np.maximum(busy, 1.0))


def true_rate(records_in: Floats, busy: Floats) -> Floats:
    """Rate over busy share. Where nothing comes in: infinite, until something shows otherwise.

    >>> true_rate(np.array([100.0, 0.0, 100.0]), np.array([0.4, 0.0, 0.0])).tolist()
    [250.0, inf, inf]
    """
    finite = (records_in != 0) & (busy > 0)
    unknown = np.isnan(records_in) | np.isnan(busy)
    rate = np.where(finite, records_in / np.where(finite, busy, 1.0), np.inf)
    return np.where(unknown, np.nan, rate)


def observed_rate(records_in: Floats, pending: Floats, backpressured: Floats, *, lag_s: float) -> Floats:
    """What a source reads while it catches up, without the time it was held up; NaN while it does not.

    It catches up when at least `lag_s` seconds of its input wait. Nothing comes in: infinite.
    """
    catching_up = (pending >= lag_s * records_in) & (backpressured < 1)
    rate = np.where(catching_up, records_in / np.where(catching_up, 1 - backpressured, 1.0), np.nan)
    return np.where(records_in == 0, np.inf, rate)


def mean_observed(observed: Floats, *, at_least: int) -> Floats:
    """Mean over axis 0 of the finite observations; NaN where there are fewer than `at_least`.

    Where all that was observed is infinite, so is the mean.
    """
    finite = np.isfinite(observed)
    number = finite.sum(0)
    average = np.where(finite, observed, 0.0).sum(0) / np.maximum(number, 1)
    nothing = np.where(np.isposinf(observed).any(0), np.inf, np.nan)
    return np.where(number == 0, nothing, np.where(number < at_least, np.nan, average))


def chosen_rate(by_busy_time: Floats, observed: Floats, *, switch: float) -> Floats:
    """The true rate by busy time, or the observed one where busy time promises more than that plus `switch`.

    >>> chosen_rate(np.array([116.0, 114.0, 200.0]), np.array([100.0, 100.0, np.nan]), switch=0.15).tolist()
    [100.0, 114.0, 200.0]
    """
    no_busy_time = ~np.isfinite(by_busy_time)
    too_much = by_busy_time > observed * (1 + switch)
    return np.where(~np.isnan(observed) & (no_busy_time | too_much), observed, by_busy_time)


def edge_ratios(records_in: Floats, records_out: Floats, graph: Graph) -> Floats:
    """Records sent along each edge per record the sender gets, [E, V, V]; NaN where unknown, 0 without edge.

    Flink counts per vertex, not per edge. A vertex with one input tells the rate of that edge itself; with
    several, the others are subtracted if they send nowhere else; failing that, all that the sender sends
    is taken. Where the sender gets nothing the ratio is 0, lest it be absurdly large; so it is where the
    others send more than arrives.
    """
    edge = graph.selectivity > 0
    inputs, outputs = edge.sum(1), edge.sum(2)
    branching = (outputs > 1)[:, :, None]
    branching_others = (edge & branching).sum(1)[:, None] - (edge & branching)
    sent = np.where(edge, records_out[:, :, None], 0.0)
    from_others = sent.sum(1)[:, None] - sent
    into = records_in[:, None, :]
    subtracted = np.where(inputs[:, None] == 1, into, into - from_others)
    rate = np.where(branching_others == 0, subtracted, sent)
    processed = records_in[:, :, None]
    flows = processed > 0
    ratio = np.where(flows, np.maximum(rate, 0.0) / np.where(flows, processed, 1.0), 0.0)
    return np.where(edge, np.where(np.isnan(processed), np.nan, ratio), 0.0)


def capacity_needed(
    target_rate: Floats,
    catch_up_rate: Floats,
    utilisation: float | Floats,
    *,
    restart_s: float | Floats,
    catch_up_s: float,
) -> Floats:
    """Rate a vertex must be able to process: backlog, what a restart adds to it, the target at utilisation.

    catch_up_rate + target * restart_s / catch_up_s + target / utilisation, rounded; infinite at a utilisation
    of 0. `restart_s` = 0 leaves the restart out.

    >>> capacity_needed(np.array([1000.0]), np.array([50.0]), 0.8, restart_s=300, catch_up_s=1800).tolist()
    [1467.0]
    """
    share = np.clip(utilisation, 0.0, 1.0)
    restart = target_rate * restart_s / catch_up_s if catch_up_s > 0 else 0.0
    whole = np.floor(catch_up_rate + restart + target_rate / np.where(share > 0, share, 1.0) + 0.5)
    return np.where(np.isnan(whole) | (share > 0), whole, np.inf)


def scale_factor(
    capacity: Floats, rate: Floats, coefficient: Floats | float, *, down_factor: float, up_factor: float
) -> Floats:
    """Capacity needed over the true rate, between 1 - down_factor and 1 + up_factor; NaN if unknown.

    >>> scale_factor(
    ...     np.array([150.0, 1.0, 0.0]), np.array([100.0, 100.0, np.inf]), 1.0, down_factor=0.6, up_factor=1e5
    ... ).round(3).tolist()
    [1.5, 0.4, 0.4]
    """
    idle = np.isposinf(rate)
    some = np.where(idle | (rate == 0), 1.0, rate)
    plain = np.where(idle, 0.0, np.where(rate == 0, np.inf, capacity / some))
    factor = np.clip(plain / coefficient, 1 - down_factor, 1 + up_factor)
    return np.where(np.isnan(rate) | np.isnan(capacity), np.nan, factor)


def scaled_parallelism(
    factor: Floats, current: Integers, limit: Integers, *, least: int, most: int
) -> tuple[Integers, Integers, Integers]:
    """ceil(factor * current) between the bounds, and those bounds; as it is where the factor is unknown.

    A vertex that is outside `least` to `most` already may stay there; `limit` is the most it can ever have.
    """
    lower = np.minimum(current, least)
    upper = np.minimum(limit, np.maximum(current, most))
    raw = np.ceil(np.where(np.isnan(factor), 1.0, factor) * current)
    wanted = np.minimum(np.maximum(raw, lower), upper).astype(np.int64)
    return np.where(np.isnan(factor), current, wanted), lower, upper


def scalability(parallelism: Floats, rate: Floats, *, at_least: int, lowest: float) -> Floats:
    """How much of linear scaling past rescales have shown: 1 is all of it. Axis 0 is the past, oldest first.

    Least squares of rate = base * coefficient * parallelism, the base being the rate per subtask at the
    smallest parallelism (the latest of them); between `lowest` and 1, rounded up to hundredths. NaN marks
    places without a rescale; with fewer than `at_least` rescales scaling counts as linear.
    """
    there = ~np.isnan(parallelism)
    sizes = np.where(there, parallelism, 0.0)
    smallest = np.where(there, parallelism, np.inf).min(0)
    is_base = there & (parallelism == smallest)
    last = len(parallelism) - 1 - np.argmax(is_base[::-1], axis=0)
    base_rate = np.take_along_axis(rate, last[None], 0)[0]
    known = (there.sum(0) >= max(at_least, 1)) & ~(there & ~np.isfinite(rate)).any(0) & (base_rate > 0)
    base = np.where(known, base_rate / np.where(known, smallest, 1.0), 1.0)
    fit = (sizes * np.where(there & known, rate, 0.0)).sum(0) / np.maximum((sizes**2).sum(0) * base, 1e-12)
    coefficient = np.clip(fit, lowest, 1.0)
    return np.where(known, np.ceil(coefficient * 100 - 1e-9) / 100, 1.0)
