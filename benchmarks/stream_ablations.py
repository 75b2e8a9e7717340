"""`make bench-stream-ablations`: SURE without one of its parts, and with other sizes, on the two small jobs.

The whole and its variants were trained alike on small-1 and small-2, five times each with other seeds. All
meet the same 20 unseen days of both jobs with the same luck; the training with seed s plays the days whose
number modulo 5 is s. Ratios are of mean cost, variant over whole: above 1 the part helps. Intervals are over
days.

Only the sampler has a bar: a random choice of snapshots and neighbours must cost more, which a sign-flip test
over the 40 pairs of job and day must not put down to luck. It tells of these trainings on other days, not of
other trainings: those are five of each variant, and the test over their five means (which cannot go below
1/32) is reported beside it, with how many of them learned next to nothing: they cost no less than 99 % of the
rule they began from. k1 is the number of snapshots looked at, k2 that of neighbours in each. Other weights of
latency and utilisation would need lessons of their own, and are not measured.

    make bench-stream-ablations ARGS="--seeds 5"    # a trial; it misses the bar on the number of days
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.decima_settings import Numbers, finish_after, ratio_reported, reported
from benchmarks.results import Row, at_least, at_most
from benchmarks.stream_settings import (
    TRAINING_SEEDS,
    Played,
    asked_for,
    learned,
    play,
    same_for_all,
    started_workers,
)
from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
from trimtab.core.statistics import mean_interval, paired_ratio
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.sure.design import Design

DAYS = 20
RULE = "rule"
NOTHING = 0.99
"""Of the rule's cost: a training that costs more has learned next to nothing."""
JOBS = ("small-1", "small-2")
WHOLE, RANDOM, UNINFORMED = "small-sure", "small-random", "small-no-information"
# Sizes are those in the manifests, so that no row can tell others than were trained.
VARIANTS = {
    "small-full": "full graph / sampler",
    "small-gru": "recurrent unit / sampler",
    UNINFORMED: "no mutual information / whole",
    "small-k1-2": "k1 = {one.snapshots} / k1 = {whole.snapshots}",
    "small-k1-10": "k1 = {one.snapshots} / k1 = {whole.snapshots}",
    "small-k2-1": "k2 = {one.neighbours} / k2 = {whole.neighbours}",
    "small-k2-4": "k2 = {one.neighbours} / k2 = {whole.neighbours}",
}
FLIPS = 100_000


def sign_flip_p(differences: Numbers, *, seed: int) -> float:
    """How often a mean as high as this one comes about if every sign is a coin's.

    >>> abs(sign_flip_p(np.array([1.0, 2.0, 3.0]), seed=0) - 1 / 8) < 0.01
    True
    """
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), (FLIPS, differences.size))
    # Not quite the observed mean, which is one of the draws: rounding must not hide it.
    as_high = signs @ differences >= differences.sum() - 1e-9 * np.abs(differences).sum()
    return float((1 + as_high.sum()) / (1 + FLIPS))


def by_training(one: Played, seeds: Sequence[int]) -> Numbers:
    """The cost of each training over its days, which are those whose number modulo theirs is its own."""
    trained = np.array(seeds) % TRAINING_SEEDS
    return np.array([one.values["cost"][:, trained == seed].mean() for seed in np.unique(trained)])


def idle_row(name: str, one: Played, rule: Played, seeds: Sequence[int]) -> Row:
    """How many trainings hardly changed anything; the rule plays the same days."""
    idle = (by_training(one, seeds) > NOTHING * by_training(rule, seeds)).sum()
    return reported(f"{name}: trainings that learned next to nothing, of {TRAINING_SEEDS}", float(idle))


def training_rows(found: Mapping[str, Played], seeds: Sequence[int]) -> list[Row]:
    """The sampler over trainings instead of days, and trainings that came to nothing."""
    name, others = "random subset / sampler", "no mutual information / whole"
    gaps = by_training(found[RANDOM], seeds) - by_training(found[WHOLE], seeds)
    return [
        reported(f"{name}: p over trainings", sign_flip_p(gaps, seed=0)),
        idle_row(f"{name}: sampler", found[WHOLE], found[RULE], seeds),
        idle_row(f"{name}: random subset", found[RANDOM], found[RULE], seeds),
        idle_row(others, found[UNINFORMED], found[RULE], seeds),
    ]


def random_rows(random: Played, whole: Played) -> list[Row]:
    """What the sampler adds to a random choice of the same size."""
    name = "random subset / sampler"
    ratio = paired_ratio(random.by_day("cost"), whole.by_day("cost"), seed=0)
    p = sign_flip_p((random.values["cost"] - whole.values["cost"]).ravel(), seed=0)
    holds = ratio.value > 1 and p < 0.05
    return [
        Row(f"{name}: cost", ratio.value, "> 1, p < 0.05", holds, ratio.low, ratio.high),
        at_most(f"{name}: p of a sign-flip test", p, 0.05),
    ]


def variant_rows(found: Mapping[str, Played], designs: Mapping[str, Design]) -> list[Row]:
    """Every other variant over the whole, and the cost of the whole."""
    whole = found[WHOLE].by_day("cost")
    rows = []
    for name, words in VARIANTS.items():
        told = words.format(one=designs[name], whole=designs[WHOLE])
        rows.append(ratio_reported(f"{told}: cost", found[name].by_day("cost"), whole))
    return [*rows, reported("whole: cost of an interval", mean_interval(whole, seed=0))]


def main(arguments: Sequence[str] | None = None) -> None:
    asked = asked_for("SURE without one of its parts.", DAYS, arguments)
    started = time.perf_counter()
    trained = learned((WHOLE, RANDOM, *VARIANTS), asked.bundles)
    suite = JobsSuite(jobs=JOBS, seeds=asked.seeds)
    rule = make_policy(trained[WHOLE][0].design.teacher)
    contestants = [same_for_all(name, its, JOBS) for name, its in trained.items()]
    with started_workers() as workers:
        played = play(workers, suite, [*contestants, same_for_all(RULE, [rule], JOBS)])
    found = {one.name: one for one in played}
    rows = [
        at_least("training seeds of each variant", min(TRAINING_SEEDS, asked.seeds), 5),
        at_least("unseen days of each job", asked.seeds, DAYS),
        *random_rows(found[RANDOM], found[WHOLE]),
        *training_rows(found, suite.test_seeds()),
        *variant_rows(found, {name: its[0].design for name, its in trained.items()}),
    ]
    finish_after("stream-ablations", rows, started)


if __name__ == "__main__":
    main()
