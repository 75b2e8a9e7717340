"""`make bench-gpu-gp`: the random-walk Gaussian process over machines: right to the last digits, and fast.

Densities are held against scipy's, covariances against those of many draws and of dense algebra. Times are
wall milliseconds on one core, median of the repeats, from features to affinities and their density; of whole
decisions of DAS, from a snapshot to the job and machines to start, they are the best of the repeats. The
kernel printed in the talk on DAS is shown to be one number for all pairs of graphs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

# One thread of linear algebra, chosen before numpy is loaded: a live controller has one core.
if __name__ == "__main__" and os.environ.get("OPENBLAS_NUM_THREADS") != "1":
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    os.execv(sys.executable, [sys.executable, "-m", "benchmarks.gpu_gp", *sys.argv[1:]])

import numpy as np
from scipy.stats import multivariate_normal

from benchmarks.results import Row, at_most, finish
from trimtab.gpu_scheduling import Cluster, MachineGroup, make_workload
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.network import new_network
from trimtab.gpu_scheduling.das.network_policy import network_bundle, network_policy
from trimtab.gpu_scheduling.problem import START, Snapshot
from trimtab.gpu_scheduling.simulator.simulator import Simulator
from trimtab.networks.graph_random_walk import (
    graph_posterior,
    printed_kernel,
    transition_factors,
    walk_counts,
    walk_kernel,
    walk_steps,
)
from trimtab.networks.node_gaussian_process import (
    MachineGaussian,
    draw,
    log_probability,
    machine_posterior,
    machine_prior,
)

DEVIATION, PERSISTENCE, NOISE = 0.7, 0.5, 0.3
SIZES = ((1, 16), (8, 4), (64, 16), (300, 16))
SEEDS = range(5)
DRAWS, REPEATS = 200_000, 40
JOBS, MACHINES, RANK = 64, 2048, 16
MOMENTS = 64


def instance(machines: int, rank: int, seed: int) -> tuple[np.ndarray, ...]:
    """Features, mean, and evidence of half the machines: counts and what was observed."""
    random = np.random.default_rng(seed)
    features = np.log1p(np.exp(random.normal(0, 2, (machines, rank))))
    counts = np.where(random.random(machines) < 0.5, random.uniform(0.2, 20, machines), 0.0)
    return features, random.normal(size=machines), counts, random.normal(size=machines)


def dense(features: np.ndarray, mean: np.ndarray, counts: np.ndarray, observed: np.ndarray) -> tuple:
    """Mean and covariance with matrices of machines by machines, as the formulas are printed."""
    alike = features @ features.T
    degree = alike.sum(1)
    walk = PERSISTENCE * alike / np.sqrt(np.outer(degree, degree))
    covariance = np.linalg.inv((np.eye(len(mean)) - walk) / DEVIATION**2 + np.diag(counts) / NOISE**2)
    return mean + covariance @ (counts / NOISE**2 * (observed - mean)), covariance


def low_rank(
    features: np.ndarray, mean: np.ndarray, counts: np.ndarray, observed: np.ndarray
) -> MachineGaussian:
    prior = machine_prior(features, mean, deviation=DEVIATION, persistence=PERSISTENCE, xp=np)
    return machine_posterior(prior, counts, observed, noise_deviation=NOISE, xp=np)


def exactness_rows() -> list[Row]:
    """Largest differences over sizes, seeds, and without or with evidence."""
    near, far, means = [], [], []
    for machines, rank in SIZES:
        for seed in SEEDS:
            features, mean, counts, observed = instance(machines, rank, seed)
            random = np.random.default_rng(seed)
            for seen in (0 * counts, counts):
                found = low_rank(features, mean, seen, observed)
                wanted, covariance = dense(features, mean, seen, observed)
                means.append(abs(found.mean - wanted).max())
                law = multivariate_normal(wanted, covariance)
                drawn = draw(found, random.normal(size=machines), random.normal(size=rank), np)
                near.append(abs(log_probability(found, drawn, np) - law.logpdf(drawn)))
                # Tens of deviations away the log density is some -40,000, so digits are what counts.
                away = drawn + random.normal(0, 2, machines)
                far.append(abs(log_probability(found, away, np) / law.logpdf(away) - 1))
    return [
        at_most("log-probability of draws, up to 300 machines: off scipy's by", float(max(near)), 1e-9),
        at_most("log-probability far from the mean: off scipy's by a share of", float(max(far)), 1e-9),
        at_most("posterior mean: off a dense solve by", float(max(means)), 1e-9),
    ]


def covariance_row() -> Row:
    """Draws of a prior and of a posterior over 8 machines; the worse of the two."""
    features, mean, counts, observed = instance(8, 4, 0)
    random, errors = np.random.default_rng(0), []
    for seen in (0 * counts, counts):
        noise = random.normal(size=(DRAWS, 8)), random.normal(size=(DRAWS, 4))
        draws = draw(low_rank(features, mean, seen, observed), *noise, np)
        covariance = dense(features, mean, seen, observed)[1]
        errors.append(abs(np.cov(draws.T) - covariance).max() / abs(covariance).max())
    return at_most("covariance of 200,000 draws: error over the largest entry", float(max(errors)), 0.01)


def times_ms(work: Callable[[], object]) -> list[float]:
    """Of each repeat; the first three warm up."""
    taken = []
    for _ in range(REPEATS + 3):
        started = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - started))
    return taken[3:]


def median_ms(work: Callable[[], object]) -> float:
    return float(np.median(times_ms(work)))


def speed_ms(kind: type[np.floating]) -> tuple[float, float]:
    """Every pending job's affinity for every machine, without and with evidence: draw and log-probability."""
    random = np.random.default_rng(0)
    features = random.exponential(size=(JOBS, MACHINES, RANK)).astype(kind)
    mean, own, observed = random.normal(size=(3, JOBS, MACHINES)).astype(kind)
    walk = random.normal(size=(JOBS, RANK)).astype(kind)
    counts = random.integers(0, 5, (JOBS, MACHINES)).astype(kind)

    def sampled(gaussian: MachineGaussian) -> None:
        log_probability(gaussian, draw(gaussian, own, walk, np), np)

    def without() -> None:
        sampled(machine_prior(features, mean, deviation=DEVIATION, persistence=PERSISTENCE, xp=np))

    return median_ms(without), median_ms(lambda: sampled(low_rank(features, mean, counts, observed)))


def speed_rows() -> list[Row]:
    name = f"{JOBS} jobs x {MACHINES:,} machines, rank {RANK}, {{}} bits: ms of {{}}"
    drawn, after = "draw and log-probability", "the same after evidence"
    without, with_evidence = speed_ms(np.float64)
    without_32, with_evidence_32 = speed_ms(np.float32)
    return [
        at_most(name.format(64, drawn), without, 60.0),
        Row(name.format(64, after), with_evidence, "none", True),
        Row(name.format(32, drawn), without_32, "none", True),
        Row(name.format(32, after), with_evidence_32, "none", True),
    ]


def moment(machines: int) -> Snapshot:
    """Gangs of 1 to 16 GPUs that all wait, and machines half of which were observed."""
    random = np.random.default_rng(0)
    gpus = random.choice([1, 2, 4, 8, 16], JOBS)
    jobs = make_workload(np.zeros(JOBS, np.int64), duration_ms=np.full(JOBS, 60_000), gpus=gpus)
    snapshot = Simulator(Cluster(machines=(MachineGroup(count=machines, gpus=8),))).reset(jobs, seed=0)
    seen = np.where(random.random(machines) < 0.5, random.uniform(0.2, 40, machines), 0.0)
    return snapshot._replace(observed=seen, observed_speed=random.uniform(0.7, 1.3, machines))


def decision_ms(machines: int, design: Design) -> float:
    """From a snapshot to an action; the time differs from repeat to repeat, so that all is scored anew."""
    policy = network_policy(network_bundle("fresh", new_network(design, 0), design, trained={}, scores={}))
    snapshot, now = moment(machines), iter(range(1_000_000))

    def work() -> None:
        assert policy.decide(snapshot._replace(now_ms=next(now))).verb == START

    return min(times_ms(work))


def decision_rows() -> list[Row]:
    """The published agents score all machines for all jobs; ours rank them for the job they choose."""
    bars = ((512, 50.0), (2048, 120.0))
    name = f"DAS, whole decision in numpy, {JOBS} jobs x {{:,}} machines, {{}}: ms"
    designs = {
        "all scores": Design(actions="scores"),
        "one choice": Design(actions="choices"),
        "one choice, told of places": Design(actions="choices", process=False, places=True),
    }
    return [
        at_most(name.format(size, words), decision_ms(size, design), bar)
        for words, design in designs.items()
        for size, bar in bars
    ]


def graph_speed_row() -> Row:
    """The faithful form: 16 jobs now, 64 moments of history, all of whose counts are kept."""
    random = np.random.default_rng(0)
    features, weights = random.exponential(size=(16, MACHINES, 8)), random.dirichlet(np.ones(MACHINES), 16)
    steps = walk_steps(PERSISTENCE)
    history, targets = random.random((MOMENTS, steps)), random.normal(size=(MOMENTS, MACHINES))

    def work() -> None:
        counts = walk_counts(*transition_factors(features, np), weights, weights, steps=steps, xp=np)
        graph_posterior(counts, history, targets, persistence=PERSISTENCE, noise_deviation=NOISE, xp=np)

    name = f"graph form, 16 jobs x {MACHINES:,} machines, {MOMENTS} moments, rank 8: ms of the posterior"
    return Row(name, median_ms(work), "none", True)


def kernel_rows() -> list[Row]:
    """The printed kernel over random graphs; ours against the dense solve; correlations of random states."""
    random = np.random.default_rng(0)
    walks = [random.dirichlet(np.full(8, spread), 8) for spread in (0.05, 0.2, 1.0, 5.0, 50.0)]
    printed = np.array([printed_kernel(a, b, persistence=PERSISTENCE, xp=np) for a in walks for b in walks])
    rows = [
        at_most("printed kernel, 25 pairs of graphs: spread over mean", float(np.ptp(printed) / 128), 1e-9),
        at_most("printed kernel: off 8 x 8 / (1 - 0.5) by", float(abs(printed - 128).max()), 1e-9),
        at_most("graph kernel: off a dense solve by", graph_error(), 1e-8),
    ]
    for machines in (8, 64, 512):
        name = f"graph kernel, weights = free GPUs, {machines} machines: least correlation of 20 states"
        rows.append(Row(name, least_correlation(machines), "none", True))
    return rows


def graph_error() -> float:
    random, errors = np.random.default_rng(1), []
    for persistence in (0.5, 0.9):
        left, right = transition_factors(random.exponential(size=(4, 8, 4)), np)
        start, stop = random.dirichlet(np.ones(8), (2, 4))
        counts = walk_counts(left, right, start, stop, steps=walk_steps(persistence), xp=np)
        found = walk_kernel(counts, counts, persistence=persistence, xp=np)
        for i, j in np.ndindex(4, 4):
            product = np.kron(left[i] @ right[i].T, left[j] @ right[j].T)
            walks = np.linalg.solve(np.eye(64) - persistence * product, np.kron(start[i], start[j]))
            errors.append(abs(found[i, j] - np.kron(stop[i], stop[j]) @ walks))
    return float(max(errors))


def least_correlation(machines: int) -> float:
    """Median over ten sets of states; 1: the process cannot tell any two of them apart."""
    least = []
    for seed in range(10):
        random = np.random.default_rng(seed)
        left, right = transition_factors(random.exponential(size=(20, machines, 8)), np)
        free = random.integers(0, 5, (20, machines)) + 1e-9
        free /= free.sum(1, keepdims=True)
        counts = walk_counts(left, right, free, free, steps=walk_steps(PERSISTENCE), xp=np)
        gram = walk_kernel(counts, counts, persistence=PERSISTENCE, xp=np)
        least.append((gram / np.sqrt(np.outer(np.diag(gram), np.diag(gram)))).min())
    return float(np.median(least))


if __name__ == "__main__":
    speed = [*speed_rows(), *decision_rows(), graph_speed_row()]
    finish("gpu-gp", [*exactness_rows(), covariance_row(), *speed, *kernel_rows()])
