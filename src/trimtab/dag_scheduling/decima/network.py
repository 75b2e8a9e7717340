"""Decima's network: which stage next, and how many executors its job may take; on numpy or JAX.

    stages ──graph encoder──► embeddings ──sum──► jobs ──mean, max──► cluster
       └────────────┴──────────────────────────────┴──────────────────┴──► a score for every choice
    chosen stage + each possible limit ──► a score for every limit

`Design` says which of it is there; the ablations and the published network are other designs of the
same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.dag_scheduling.decima.features import (
    CLASS_FEATURES,
    CLUSTER_FEATURES,
    JOB_FEATURES,
    LIMIT_FEATURES,
    READY_FEATURE,
    SIZE_FEATURES,
    STAGE_FEATURES,
    Facts,
    Features,
    TooLarge,
    class_features,
    facts_of,
    limit_features,
    paper_features,
    rich_features,
    too_large,
)
from trimtab.dag_scheduling.decima.view import DEMAND, MOST_CLASSES, View
from trimtab.networks.graph_encoder import Grid, new_encoder
from trimtab.networks.graph_rows import Packed
from trimtab.networks.layers import Array, Parameters, dense, leaky, mlp, new_dense, new_mlp

__all__ = ["FUTURE_FEATURES", "Design", "Scores", "limit_scores", "limits_of"]
__all__ += ["feature_names", "new_network", "stage_scores", "summary", "told_more", "value"]

MASKED = -1e9
FUTURE_FEATURES = 8
"""Numbers about jobs still to come that the critic is told in training (never the policy)."""


@dataclass(frozen=True)
class Design:
    """What a network is made of; stored in the manifest of a bundle."""

    classes: int = 1
    """Executor classes it can tell apart."""
    hidden: int = 32
    embedding: int = 16
    limits: int = 14
    """Limits on offer, log-spaced; 0 offers every number of executors (the published head)."""
    graph: bool = True
    """Off: no message passing and no path features."""
    limit_head: bool = True
    """Off: the chosen job may take all it can use."""
    paper: bool = False
    """The published features, summaries and sizes."""
    ready: bool = False
    """Whether stages are told when their parents will be done."""
    sizes: bool = False
    """Whether it is told what executors of several sizes are wanted for."""
    largest_score: float = 0.0
    """Scores are bent to stay within plus and minus this, so that nothing is ruled out; 0: they are not."""

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= MOST_CLASSES:
            raise SettingsError(
                f"{self.classes} executor classes; a network tells 1 to {MOST_CLASSES} apart, merge some"
            )


class Scores(NamedTuple):
    """Scores of all choices: (job, stage, class) in this order, and last to leave the rest idle."""

    logits: Array  # [envs, jobs * stages * classes + 1]
    mask: Array
    contexts: Array  # [envs, jobs, stages, n]: what the limit head is told about a stage
    demand: Array  # [envs, jobs, stages]
    facts: Facts


def new_network(design: Design, seed: int) -> Parameters:
    """Draw the parameters of actor and critic."""
    random = np.random.default_rng(seed)
    hidden, size = design.hidden, design.embedding
    stage, job, cluster = (len(names) for names in feature_names(design)[:3])
    inner = (16, 8) if design.paper else ()
    known = stage + (size if design.graph else 0)
    actor: dict[str, Any] = {
        "summary": new_mlp(random, (known, *inner, size)),
        "stage_known": new_dense(random, known, hidden),
        "score": new_mlp(random, (hidden, 16, 8, 1) if design.paper else (hidden, 16, 1), 0.1),
    }
    if design.graph:
        actor["encoder"] = new_encoder(
            random, features=stage, hidden=16 if design.paper else hidden, size=size, inner=inner
        )
    if design.paper:
        actor["cluster"] = new_mlp(random, (size, *inner, size))
        actor["stage_context"] = new_dense(random, 2 * size, hidden)
    else:
        actor["job"] = new_mlp(random, (job + size, hidden, hidden))
        actor["cluster"] = new_mlp(random, (2 * hidden + cluster, hidden, hidden))
        actor["stage_context"] = new_dense(random, 2 * hidden, hidden)
        actor["idle"] = new_mlp(random, (hidden, 16, 1), 0.1)
        actor["idle"][-1]["bias"] -= 4.0
    if design.classes > 1:
        actor["class"] = new_dense(random, class_feature_count(design), hidden)
    if design.limit_head:
        offered = len(feature_names(design)[3])
        told = job + 2 * size if design.paper else hidden
        actor["limit_context"] = new_dense(random, told, hidden)
        actor["limit_offer"] = new_dense(random, offered, hidden)
        actor["limit_score"] = new_mlp(random, (hidden, 16, 8, 1) if design.paper else (hidden, 16, 1), 0.1)
    return {"actor": actor, "critic": _new_critic(random)}


def _new_critic(random: np.random.Generator) -> Parameters:
    hidden = 32
    jobs, cluster = len(JOB_FEATURES), len(CLUSTER_FEATURES) + FUTURE_FEATURES
    return {
        "job": new_mlp(random, (jobs, hidden, hidden)),
        "cluster": new_mlp(random, (2 * hidden + cluster, hidden, hidden)),
        "wait": new_mlp(random, (2 * hidden, hidden, 1), 0.1),
        "rest": new_mlp(random, (hidden, hidden, 1), 0.1),
    }


def feature_names(design: Design) -> tuple[tuple[str, ...], ...]:
    """What the network is told about a stage, a job, the cluster and a limit."""
    if design.paper:
        job = ("executors of job", "source", "free executors")
        return (*job, "work left", "tasks left"), job, (), ("limit",)
    stage, job, cluster = STAGE_FEATURES, JOB_FEATURES, CLUSTER_FEATURES
    if design.ready:
        stage = (*stage, READY_FEATURE)
    if design.sizes:
        kinds = range(design.classes)
        beyond = tuple(f"work too large for class {kind}" for kind in kinds)
        stage, job = (*stage, *SIZE_FEATURES), (*job, *beyond)
        cluster = (*cluster, *beyond, *(f"free executors of class {kind}" for kind in kinds))
    return stage, job, cluster, LIMIT_FEATURES


def told_more(actor: Parameters, had: Design, wanted: Design) -> Parameters:
    """An actor that decides as before, with room for what `wanted` tells beyond `had`; it heeds none yet."""
    stage, job, cluster, _ = (
        _places_of_new(old, new) for old, new in zip(feature_names(had), feature_names(wanted), strict=True)
    )

    def grown(layer: Parameters, places: list[int]) -> Parameters:
        return {**layer, "weights": np.insert(layer["weights"], places, 0.0, axis=0)}

    def first_grown(layers: Parameters, places: list[int]) -> Parameters:
        return [grown(layers[0], places), *layers[1:]]

    actor = {
        **actor,
        "summary": first_grown(actor["summary"], stage),
        "stage_known": grown(actor["stage_known"], stage),
        "job": first_grown(actor["job"], job),
        "cluster": first_grown(actor["cluster"], [2 * had.hidden + place for place in cluster]),
    }
    if had.graph:
        own = first_grown(actor["encoder"]["own"], stage)
        actor["encoder"] = {**actor["encoder"], "own": own}
    if had.classes > 1:
        known = class_feature_count(had)
        actor["class"] = grown(actor["class"], [known] * (class_feature_count(wanted) - known))
    return actor


def _places_of_new(before: tuple[str, ...], after: tuple[str, ...]) -> list[int]:
    """For every name that is new, how many of the old ones come before it.

    >>> _places_of_new(("a", "c"), ("a", "b", "c", "d", "e"))
    [1, 2, 2]
    """
    old = [name in before for name in after]
    return [sum(old[:place]) for place, known in enumerate(old) if not known]


def class_feature_count(design: Design) -> int:
    """Numbers that set one class apart from another."""
    return len(CLASS_FEATURES) + 2 * design.sizes


def stage_scores(
    parameters: Parameters, view: View, design: Design, xp: Any, rows: Grid | Packed | None = None
) -> Scores:
    """Score every (job, stage, class) and idling; numpy is faster with the packed `rows` of a single view."""
    actor = parameters["actor"]
    facts = facts_of(view, design.classes, xp, rows)
    sizes = too_large(facts, xp) if design.sizes else None
    if design.paper:
        features = paper_features(facts, xp)
    else:
        features = rich_features(facts, xp, paths=design.graph, ready=design.ready, sizes=sizes)
    known = features.stages
    if design.graph:
        embeddings = facts.rows.encode(actor["encoder"], known)
        known = xp.concatenate([known, embeddings], axis=-1)
    summaries = leaky(mlp(actor["summary"], known, xp), xp)
    job_sums = facts.rows.total(summaries * facts.unfinished[..., None])
    if design.paper:
        job_context = job_sums
        alive = facts.present[..., None]
        cluster_context = (leaky(mlp(actor["cluster"], job_sums, xp), xp) * alive).sum(-2)
    else:
        job_context, cluster_context = _contexts(actor, features, job_sums / 4, facts.present, xp)
    around = _around(job_context, cluster_context, xp)
    few = facts.rows.among(facts.choice.any(-1))
    own = dense(actor["stage_known"], few.picked(known))
    context = own + few.spread(dense(actor["stage_context"], around))
    scores = few.placed(_choice_scores(actor, context, facts, sizes, few, xp), MASKED)
    envs = len(view.cluster)
    if design.paper:
        idle = xp.full((envs, 1), MASKED, xp.float32)
        idle_mask = xp.zeros((envs, 1), bool)  # the published agent always chooses a stage
        told = few.spread(xp.concatenate([features.jobs, around], axis=-1))
        told = xp.broadcast_to(told, (*context.shape[:-1], told.shape[-1]))
    else:
        idle = mlp(actor["idle"], cluster_context, xp)
        idle_mask = facts.may_idle[:, None] > 0
        told = context
    choice = facts.rows.placed(facts.choice, False)
    mask = xp.concatenate([choice.reshape(envs, -1), idle_mask], axis=1)
    logits = _bent(xp.concatenate([scores.reshape(envs, -1), idle], axis=1), design, xp)
    return Scores(
        xp.where(mask, logits, MASKED),
        mask,
        few.placed(told, 0.0),
        view.stages[..., DEMAND].astype(xp.float32),
        facts,
    )


def _around(job_context: Array, cluster_context: Array, xp: Any) -> Array:
    """What is known of each job, and beside it what is known of all of them."""
    shape = (*job_context.shape[:2], cluster_context.shape[-1])
    return xp.concatenate([job_context, xp.broadcast_to(cluster_context[:, None, :], shape)], axis=-1)


def _contexts(
    actor: Parameters, features: Features, job_sums: Array, present: Array, xp: Any
) -> tuple[Array, Array]:
    jobs = xp.concatenate([features.jobs, job_sums], axis=-1)
    return pooled(actor["job"], actor["cluster"], jobs, features.cluster, present, xp)


def pooled(
    of_job: Parameters, of_cluster: Parameters, jobs: Array, cluster: Array, present: Array, xp: Any
) -> tuple[Array, Array]:
    """What is known of each job, and of all of them: mean and maximum do not grow with their number."""
    alive = present[..., None]
    contexts = leaky(mlp(of_job, jobs, xp), xp) * alive
    mean = contexts.sum(-2) / xp.maximum(alive.sum(-2), 1)
    # Empty rows count as 0; so does having none, or a policy would decide otherwise without padding.
    known = xp.concatenate([mean, contexts.max(-2, initial=0.0), cluster], axis=-1)
    return contexts, leaky(mlp(of_cluster, known, xp), xp)


def _choice_scores(
    actor: Parameters, context: Array, facts: Facts, sizes: TooLarge | None, few: Grid | Packed, xp: Any
) -> Array:
    """Scores by (job, stage, class); with one class there is nothing to tell apart."""
    context = context[..., None, :]
    if "class" in actor:
        context = context + dense(actor["class"], class_features(facts, few, xp, sizes=sizes))
    return mlp(actor["score"], leaky(context, xp), xp)[..., 0]


def limits_of(executor_count: Array, design: Design, most: int, xp: Any) -> Array:
    """The limits on offer, from all executors down to one: [envs, limits]."""
    if design.limits == 0:
        every = xp.arange(most, 0, -1, dtype=xp.float32)
        return xp.minimum(every[None, :], executor_count[:, None])
    return xp.ceil(executor_count[:, None] ** _powers(design.limits) - 1e-4)


@cache
def _powers(limits: int) -> Array:
    """Exponents that space limits evenly on a logarithmic scale."""
    return np.linspace(1.0, 0.0, limits, dtype=np.float32)


def limit_scores(
    parameters: Parameters, scores: Scores, choice: Array, design: Design, most: int, xp: Any
) -> tuple[Array, Array, Array]:
    """Scores, mask and values of the limits for a choice: three arrays [envs, limits].

    A limit is on offer if it sends an executor, and sends more than the next smaller one does.
    `most` is the size of the largest cluster, where every limit is on offer.
    """
    actor, facts = parameters["actor"], scores.facts
    envs, jobs, stages = scores.demand.shape
    env = xp.arange(envs)  # views may be of numpy where the rest is of JAX
    # Past the last stage lies idling, which has no limit: whatever is found for it is not used.
    position = xp.minimum(choice // design.classes, jobs * stages - 1)
    job, stage = position // stages, position % stages
    demand = xp.asarray(scores.demand)[env, job, stage]
    source = xp.asarray(facts.source)[env, job]
    others = xp.asarray(facts.executors)[env, job] - source * facts.free.sum(-1)
    free = xp.asarray(facts.free)[env, choice % design.classes]
    limits = limits_of(facts.executor_count, design, most, xp)
    if not design.limit_head:
        limits = limits[:, :1]
    sent = xp.minimum(xp.minimum(demand, free)[:, None], limits - others[:, None])
    smaller = xp.concatenate([sent[:, 1:], xp.zeros((envs, 1), xp.float32)], axis=1)
    mask = sent > xp.maximum(smaller, 0)
    if design.limits == 0:
        fewer = xp.concatenate([limits[:, 1:], xp.zeros((envs, 1), xp.float32)], axis=1)
        mask = (sent > 0) & (limits > fewer)
    if not design.limit_head:
        return xp.zeros((envs, 1), xp.float32), mask, limits
    if design.paper:
        offers = limits[..., None] / 50
    else:
        offers = limit_features(
            limits,
            sent,
            demand=demand,
            free=free,
            others=others,
            work_s=facts.job_work_s[env, job],
            executors=facts.executor_count,
            xp=xp,
        )
    told = scores.contexts[env, job, stage][:, None, :]
    if not design.paper:
        told = leaky(told, xp)
    known = leaky(dense(actor["limit_context"], told) + dense(actor["limit_offer"], offers), xp)
    logits = _bent(mlp(actor["limit_score"], known, xp)[..., 0], design, xp)
    return xp.where(mask, logits, MASKED), mask, limits


def _bent(scores: Array, design: Design, xp: Any) -> Array:
    """Keep scores within bounds, smoothly, so that training can still try what a teacher never did."""
    if not design.largest_score:
        return scores
    return design.largest_score * xp.tanh(scores / design.largest_score)


def value(parameters: Parameters, facts: Facts, future: Array, xp: Any) -> Array:
    """What the critic expects: the waiting of each job, and what is still to come.

    It sees jobs that have not arrived yet (`future`). Such a baseline leaves the gradient unbiased,
    because actions do not change arrivals (input-dependent baselines, ICLR'19).
    """
    critic = parameters["critic"]
    features = rich_features(facts, xp)
    cluster = xp.concatenate([features.cluster, future], axis=-1)
    jobs, around = pooled(critic["job"], critic["cluster"], features.jobs, cluster, facts.present, xp)
    around_each = xp.broadcast_to(around[:, None, :], jobs.shape)
    waits = mlp(critic["wait"], xp.concatenate([jobs, around_each], axis=-1), xp)[..., 0]
    return (waits * facts.present).sum(-1) + mlp(critic["rest"], around, xp)[..., 0]


def summary(view: View, classes: int, xp: Any) -> Array:
    """A few numbers about the whole situation, for separate value networks: [envs, n]."""
    facts = facts_of(view, classes, xp)
    features = rich_features(facts, xp)
    count = xp.maximum(facts.present.sum(-1), 1)[:, None]
    return xp.concatenate([features.cluster, features.jobs.sum(-2) / count], axis=-1)
