"""The networks of DAS: who goes first, and on which machines; on numpy or JAX.

    machines ──► embeddings ──mean──► gate ┐
    jobs ──► embeddings ───────────────────┴─► + place in the queue ──► Transformer ──► a score for every job
    (job, machine, facts of the pair) ──► hidden ──► score, and features of the Gaussian process over machines

With `places` a job also hears how fast it would be where it could start now (see `places`), and every job
has a doubt: whether to wait for better. Doubt counts against the job, and if even the least is large, for
holding back. First scores are then those that the compact agents begin with (see `compact`): straight paths
from facts to scores, of demands one for calm moments and one for crowded ones. The networks add to them.

What machines were seen to do enters by the posterior of that process: its mean is added to the scores
through a learned gate. `Design` says which of it is there. Encoders are shared by both agents, and run once;
placement is worked out for as many jobs as are asked for.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from trimtab.gpu_scheduling.das.compact import FIRST_DEMANDS
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.places import (
    PLACE_FACTS,
    Places,
    by_mood,
    gpus_of,
    in_this_mood,
    new_places,
    usual_places,
)
from trimtab.gpu_scheduling.das.scoring import GOOD_ENOUGH, USUAL_REST
from trimtab.gpu_scheduling.das.view import JOB_FACTS, MACHINE_FACTS, PAIR_FACTS, View
from trimtab.networks.layers import Array, Parameters, dense, leaky, mlp, new_dense, new_mlp
from trimtab.networks.node_gaussian_process import (
    MachineGaussian,
    machine_posterior,
    machine_prior,
    persistence_of,
)
from trimtab.networks.squeeze_and_communicate import communicated, new_communication, squeezed
from trimtab.networks.transformer import new_transformer, transformer

__all__ = ["Known", "deviation_of", "encode", "feature_names", "new_network", "order_scores"]
__all__ += ["place_scores", "summary", "value"]

PAIR_HIDDEN = 32
"""Numbers between (job, machine, facts of the pair) and a score; there are jobs x machines of these rows."""
FIRST_ORDER = {"expected duration": -14.0, "age": 0.2 * 14.0}
"""Least expected duration first, less the longer a job has waited: these facts are logarithms over 14."""
ORDER_SHARPNESS = 3.0
"""How many times the logarithms of priorities scores of jobs are at first: the more, the surer."""
DEMANDS = ("usual", "gpus", "jobs waiting", "time since it came", "rest expected")
DOUBT = 120.0
"""How fast doubt grows below the speed that is demanded."""
FIRST_SKIP = {"speed alone": 1.0, "crowd": -2.0}
"""Placement begins as the rule `fast`, to first order: fast machines, and crowded ones count double."""
FIRST_HOLD = -3.0
"""Score of holding back at first; those of jobs are near 0."""
FIRST_ORDER_DEVIATION, FIRST_PLACE_DEVIATION = 1.0, 0.3
FIRST_NOISE = 2.0
"""Deviation of one observation over that of the process: after 32 of them a third of the doubt is left."""
_OF_JOBS_ALONE = np.array([name != "GPUs free" for name in JOB_FACTS], np.float32)
_LOWEST = np.float32(-1e6)
_WIDEST = 3.0
_SMALL = 0.1


class Known(NamedTuple):
    """What the encoders say of jobs and machines."""

    jobs: Array  # [b, W, width]
    machines: Array  # [b, M, width]
    pair_of_machine: Array  # [b, M, PAIR_HIDDEN]: its part of what is hidden of every pair
    waits: Array  # [b, W]
    real: Array  # [b, M]
    facts: Array  # [b, W, facts]: what was known of jobs
    fits: Array  # [b, W]: waits, and has room
    usual: Places | None = None


def feature_names() -> dict[str, list[str]]:
    """What the networks are told of a job, a machine and a pair of them."""
    return {"job": list(JOB_FACTS), "machine": list(MACHINE_FACTS), "pair": list(PAIR_FACTS)}


def new_network(design: Design, seed: int) -> Parameters:
    """Draw the parameters of actor and critic; at first all jobs have nearly the same score."""
    random = np.random.default_rng(seed)
    width, jobs, machines, pairs = design.width, len(JOB_FACTS), len(MACHINE_FACTS), len(PAIR_FACTS)
    skip = np.array([FIRST_SKIP.get(name, 0.0) for name in PAIR_FACTS], np.float32)
    actor: dict[str, Any] = {
        "job": new_dense(random, jobs, width),
        "machine": new_mlp(random, (machines, width, width)),
        "place_in_queue": random.normal(0, 0.02, (design.window, width)).astype(np.float32),
        "encoder": new_transformer(random, width=width, layers=design.layers),
        "order": new_mlp(random, (width, width // 2, 1), _SMALL),
        "pair_of_machine": new_dense(random, width, PAIR_HIDDEN),
        "pair_of_job": {"weights": new_dense(random, width, PAIR_HIDDEN)["weights"]},
        "pair_facts": {"weights": new_dense(random, pairs, PAIR_HIDDEN)["weights"]},
        "placement": new_dense(random, PAIR_HIDDEN, 1, _SMALL),
        "skip": skip[:, None],
    }
    if design.communicate:
        actor["communication"] = new_communication(random, width)
    if design.actions == "choices":
        actor["hold"] = new_mlp(random, (2 * width, width // 2, 1), _SMALL)
        actor["hold"][-1]["bias"] += np.float32(FIRST_HOLD)
    else:
        actor["order_log_deviation"] = np.float32(math.log(FIRST_ORDER_DEVIATION))
        actor["place_log_deviation"] = np.float32(math.log(FIRST_PLACE_DEVIATION))
    if design.places:
        first = [FIRST_ORDER.get(name, 0.0) for name in (*JOB_FACTS, *PLACE_FACTS)]
        actor["job"] = new_dense(random, jobs + len(PLACE_FACTS), width)
        actor["doubt"] = new_mlp(random, (width, width // 2, 1), _SMALL)
        actor["doubt_weight"] = np.float32(1.0)
        actor["order_skip"] = ORDER_SHARPNESS * np.array(first, np.float32)[:, None]
        actor["demand"] = by_mood(DEMANDS, FIRST_DEMANDS)
        actor |= new_places()
    if design.process:
        actor["process"] = {
            "features": new_dense(random, PAIR_HIDDEN, design.rank),
            "persistence": np.float32(0.0),
            "log_noise": np.float32(math.log(FIRST_NOISE)),
            "gate": np.float32(1.0),
        }
    return {"actor": actor, "critic": _new_critic(random)}


def _new_critic(random: np.random.Generator) -> Parameters:
    hidden = 32
    return {
        "job": new_mlp(random, (len(JOB_FACTS), hidden, hidden)),
        "machine": new_mlp(random, (len(MACHINE_FACTS), hidden, hidden)),
        "around": new_mlp(random, (4 * hidden, hidden, hidden)),
        "wait": new_mlp(random, (2 * hidden, hidden, 1), _SMALL),
        "rest": new_mlp(random, (hidden, hidden, 1), _SMALL),
    }


def encode(parameters: Parameters, view: View, design: Design, xp: Any) -> Known:
    """Embeddings of all jobs and machines; a view may have fewer rows of jobs than the design's window."""
    actor = parameters["actor"]
    machines = mlp(actor["machine"], view.machines, xp)
    # As published, only the gate tells jobs of machines.
    facts = view.jobs * _OF_JOBS_ALONE if design.actions == "scores" else view.jobs
    usual = usual_places(actor, view, xp) if design.places else None
    if usual is not None:
        facts = xp.concatenate([facts, usual.facts], axis=-1)
    jobs = dense(actor["job"], facts)
    if design.communicate:
        jobs = communicated(actor["communication"], jobs, squeezed(machines, view.real, xp), xp)
    jobs = jobs + actor["place_in_queue"][: jobs.shape[1]]
    jobs = transformer(actor["encoder"], jobs, view.waits, heads=design.heads, xp=xp)
    fits = view.waits & view.fits
    return Known(
        jobs, machines, dense(actor["pair_of_machine"], machines), view.waits, view.real, facts, fits, usual
    )


def _demanded(weights: Array, known: Known, xp: Any) -> Array:
    """Log of the speed that each job [b, W] asks for, over the best there is for it."""
    facts = known.facts
    gpus = gpus_of(facts, xp)
    # Times are logarithms over 14 here, and over 10 for the compact agents, whose weights these are.
    derived = [
        xp.ones_like(gpus),
        xp.log2(gpus) / 4,
        facts[..., JOB_FACTS.index("jobs waiting")],
        np.float32(1.4) * facts[..., JOB_FACTS.index("age")],
        np.float32(1.4) * facts[..., JOB_FACTS.index("expected duration")] - np.float32(USUAL_REST),
    ]
    of_moods = _times(xp.stack(derived, axis=-1), weights)
    demanded = in_this_mood(of_moods, facts, known.waits, known.real, xp)
    return xp.minimum(demanded, np.float32(GOOD_ENOUGH))


def order_scores(parameters: Parameters, known: Known, design: Design, xp: Any) -> Array:
    """Scores of jobs [b, W]; of choices, that of holding back comes last: [b, W + 1]."""
    actor = parameters["actor"]
    scores = mlp(actor["order"], known.jobs, xp)[..., 0]
    if design.actions == "scores":
        return scores
    pooled = [squeezed(known.jobs, known.waits, xp), squeezed(known.machines, known.real, xp)]
    hold = mlp(actor["hold"], xp.concatenate(pooled, axis=-1), xp)
    if design.places:
        scores += _times(known.facts, actor["order_skip"])[..., 0]
        below = _demanded(actor["demand"], known, xp) - known.facts[..., len(JOB_FACTS)]
        # At the speed that is demanded, doubt is what holding back needs to be as good.
        doubt = _softplus(DOUBT * below - FIRST_HOLD + mlp(actor["doubt"], known.jobs, xp)[..., 0], xp)
        doubt = actor["doubt_weight"] * doubt
        scores = xp.where(known.fits, scores - doubt, _LOWEST)
        # Beside the likeliest, which is 0; otherwise to hold would depend on how long jobs are.
        scores = scores - scores.max(-1, keepdims=True)
        hold = hold + xp.where(known.fits, doubt, -_LOWEST).min(-1, keepdims=True)
    return xp.concatenate([scores, hold], axis=-1)


def place_scores(
    parameters: Parameters, view: View, known: Known, design: Design, xp: Any, rows: Array | None = None
) -> MachineGaussian:
    """Scores of all machines for the jobs in `rows` [b, n] (None: all of them), as a Gaussian [b, n, M].

    The `mean` is all that counts where nothing is drawn. Without the process machines are independent; of
    choices, which draw otherwise, the deviation is 1.
    """
    actor = parameters["actor"]
    jobs, pairs = known.jobs, view.pairs
    if rows is not None:
        env = xp.arange(len(jobs))[:, None]
        jobs, pairs = jobs[env, rows], xp.asarray(pairs)[env, rows]
    # One product of [job, machine, facts] with a matrix is the sum of three, of which two are small.
    hidden = _times(pairs, actor["pair_facts"]["weights"])
    hidden += known.pair_of_machine[:, None]
    hidden += _times(jobs, actor["pair_of_job"]["weights"])[:, :, None]
    hidden = leaky(hidden, xp)
    mean = dense(actor["placement"], hidden)[..., 0]
    if known.usual is not None:
        straight = known.usual.scores + actor["usual_place"] * known.usual.chosen
        mean += straight if rows is None else straight[xp.arange(len(jobs))[:, None], rows]
    else:
        mean += _times(pairs, actor["skip"])[..., 0]
    deviation = xp.ones(1, xp.float32)
    if design.actions == "scores":
        deviation = deviation_of(actor["place_log_deviation"], xp)[None]
    real = view.real[:, None, :]
    if not design.process:
        alone = xp.zeros((*mean.shape, 1), xp.float32)
        return machine_prior(alone, mean, deviation=deviation, persistence=0.0, xp=xp, real=real)
    process = actor["process"]
    prior = machine_prior(
        _softplus(dense(process["features"], hidden), xp),
        xp.zeros(1, xp.float32),
        deviation=deviation,
        persistence=persistence_of(process["persistence"], xp)[None],
        xp=xp,
        real=real,
    )
    found = machine_posterior(
        prior,
        xp.minimum(view.seen, np.float32(design.history))[:, None, :],
        (view.speed - 1)[:, None, :],
        noise_deviation=deviation * xp.exp(process["log_noise"]),
        xp=xp,
    )
    return found._replace(mean=mean + process["gate"] * found.mean)


def deviation_of(log_deviation: Array, xp: Any) -> Array:
    """A deviation between 1/20 and 20 of any learned number, whose exponential it is near 1.

    Only the order of scores matters, so nothing else keeps those who are paid for entropy from growing it.

    >>> deviation_of(np.array([-99.0, 0.0, 99.0]), np).round(2).tolist()
    [0.05, 1.0, 20.09]
    """
    return xp.exp(_WIDEST * xp.tanh(log_deviation / _WIDEST))


def _times(values: Array, weights: Array) -> Array:
    """A dense layer without bias."""
    flat = values.reshape(-1, weights.shape[0]) @ weights
    return flat.reshape(*values.shape[:-1], weights.shape[1])


def _softplus(values: Array, xp: Any) -> Array:
    # Not log1p, which takes numpy four times as long; what it would add is below 1e-7.
    above = xp.exp(-abs(values))
    above += 1
    above = xp.log(above)
    above += xp.maximum(values, 0)
    return above


def value(parameters: Parameters, view: View, xp: Any) -> Array:
    """What the critic expects [b]: a share for every job that waits, and one for the state of all."""
    critic = parameters["critic"]
    jobs = leaky(mlp(critic["job"], view.jobs, xp), xp) * view.waits[..., None]
    machines = leaky(mlp(critic["machine"], view.machines, xp), xp) * view.real[..., None]
    pooled = [
        squeezed(jobs, view.waits, xp),
        jobs.max(-2, initial=0.0),
        squeezed(machines, view.real, xp),
        machines.max(-2, initial=0.0),
    ]
    around = leaky(mlp(critic["around"], xp.concatenate(pooled, axis=-1), xp), xp)
    beside = xp.broadcast_to(around[:, None, :], jobs.shape)
    shares = mlp(critic["wait"], xp.concatenate([jobs, beside], axis=-1), xp)[..., 0]
    return (shares * view.waits).sum(-1) + mlp(critic["rest"], around, xp)[..., 0]


def summary(view: View, xp: Any) -> Array:
    """A few numbers about the whole situation, for separate value networks: [b, n]."""
    waiting = xp.log1p(view.waits.sum(-1).astype(xp.float32))[:, None]
    means = [squeezed(view.jobs, view.waits, xp), squeezed(view.machines, view.real, xp)]
    return xp.concatenate([waiting, *means], axis=-1)
