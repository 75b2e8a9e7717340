"""What the network reads of stages, jobs and the cluster, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.dag_scheduling.decima_networks import extreme_views, first_look
from tests.dag_scheduling.test_decima_view import view_in

from trimtab.dag_scheduling.decima.features import (
    CLUSTER_FEATURES,
    JOB_FEATURES,
    STAGE_FEATURES,
    Facts,
    class_features,
    facts_of,
    paper_features,
    rich_features,
    too_large,
)
from trimtab.networks.graph_encoder import Grid

# Played as plain Python, as the coverage run does, these take minutes; test_decima_tiny.py is for that.
pytestmark = pytest.mark.slow


def test_the_paper_reads_five_numbers_of_a_stage_and_three_of_a_job():
    """The fifth of a stage is its tasks / 200, the fourth its work / 100 s; those of its job come first."""
    view = extreme_views()["no free executor"]
    facts = facts_of(view, 1, np)
    features = paper_features(facts, np)
    assert features.stages.shape[-1] == 5 and features.jobs.shape[-1] == 3 and features.cluster.size == 0
    # 0 executors, source (2) or not (-2), none free; 3 tasks of 1 s.
    np.testing.assert_allclose(features.stages[0, 0, 0], [0, 2, 0, 0.03, 0.015], rtol=1e-3)
    np.testing.assert_allclose(features.jobs[0, 1], [0, -2, 0])
    rich = rich_features(facts, np)
    counts = (rich.stages.shape[-1], rich.jobs.shape[-1], rich.cluster.shape[-1])
    assert counts == (len(STAGE_FEATURES), len(JOB_FEATURES), len(CLUSTER_FEATURES)) == (14, 14, 9)


def test_a_stage_knows_when_its_parents_are_done():
    """A chain of two stages: 6 tasks of 2 s, 3 running, 2 not begun: done in 2 * (2/3 + 1/2) s."""
    facts = facts_of(view_in(first_look("tiny")), 1, np)
    shape = (1, 1, 2)
    stages = {
        "unstarted": np.array([[[2.0, 4.0]]], np.float32),
        "running": np.array([[[3.0, 0.0]]], np.float32),
        "task_s": np.full(shape, 2.0, np.float32),
        "unfinished": np.ones(shape, np.float32),
        "rows": Grid(np.array([[[[0.0, 1.0], [0.0, 0.0]]]], np.float32), np),
    }
    zeros = {name: np.zeros(shape, np.float32) for name in ("demand", "memory", "slowdown", "runnable")}
    zeros |= {name: np.zeros(shape, np.float32) for name in ("schedulable", "work_s")}
    jobs = {
        name: getattr(facts, name)[:1, :1]
        for name in ("executors", "source", "age_s", "total_work_s", "present")
        + ("job_work_s", "open_demand", "wide_s")
    }
    cluster = {
        name: getattr(facts, name)[:1]
        for name in ("executor_count", "may_idle", "gap_s", "hidden_jobs", "free", "class_memory")
    }
    known = facts._replace(**stages, **zeros, **jobs, **cluster, choice=np.zeros((*shape, 1), bool))
    ready = rich_features(known, np, ready=True).stages[0, 0, :, -1]
    np.testing.assert_allclose(ready, [0.0, np.log1p(2 * (2 / 3 + 0.5)) / 3], rtol=1e-5)


def sized() -> tuple[Facts, Grid]:
    """Two jobs of two stages each, on 2 executors of half the memory and 2 of all, of which one is free.

    Work left in seconds, and memory: 10 (0.4), 20 (0.9); 5 (0.5), none (1.0).
    """
    zero = np.zeros((1, 2, 2), np.float32)
    rows = Grid(np.zeros((1, 2, 2, 2), np.float32), np)
    by_stage = dict.fromkeys(("unstarted", "running", "demand", "slowdown", "runnable", "schedulable"), zero)
    by_job = {name: np.ones((1, 2), np.float32) for name in ("executors", "source", "age_s", "total_work_s")}
    return Facts(
        **by_stage,
        **by_job,
        rows=rows,
        task_s=zero,
        memory=np.array([[[0.4, 0.9], [0.5, 1.0]]], np.float32),
        choice=np.ones((1, 2, 2, 2), bool),
        unfinished=zero,
        work_s=np.array([[[10, 20], [5, 0]]], np.float32),
        present=np.ones((1, 2), np.float32),
        job_work_s=np.array([[30, 5]], np.float32),
        open_demand=np.ones((1, 2), np.float32),
        wide_s=np.ones((1, 2), np.float32),
        executor_count=np.array([4], np.float32),
        may_idle=np.ones(1, np.float32),
        gap_s=np.ones(1, np.float32),
        hidden_jobs=np.zeros(1, np.float32),
        free=np.array([[0, 1]], np.float32),
        class_memory=np.array([[0.5, 1.0]], np.float32),
    ), rows


def test_what_executors_of_two_sizes_are_wanted_for():
    """Beyond half the memory there are 20 s of work of the first job, and none beyond all of it."""
    facts, _ = sized()
    plain, told = rich_features(facts, np), rich_features(facts, np, sizes=too_large(facts, np))
    for before, after in zip(plain, told, strict=True):
        np.testing.assert_array_equal(after[..., : before.shape[-1]], before)
    stages, jobs, cluster = (
        part[0, ..., before.shape[-1] :] for part, before in zip(told, plain, strict=True)
    )
    free, all_s, large_s = np.log(2) / 3, np.log(1 + 35 / 4) / 4, np.log(1 + 20 / 4) / 4
    np.testing.assert_allclose(stages[0], [[free, 0, all_s], [free, 0.5, large_s]], rtol=1e-5)
    np.testing.assert_allclose(stages[1], [[free, 0, all_s], [free, 0.5, large_s]], rtol=1e-5)
    np.testing.assert_allclose(jobs, [[np.log(21) / 5, 0], [0, 0]], rtol=1e-5)
    np.testing.assert_allclose(cluster, [large_s, 0, 0, 0.25], rtol=1e-5)


def test_what_sets_a_class_apart():
    """Memory to spare, memory, free share; then the part of all work, and of the job's, that needs more."""
    facts, rows = sized()
    told = class_features(facts, rows, np, sizes=too_large(facts, np))[0]
    np.testing.assert_allclose(
        told[0, 0], [[0.1, 0.5, 0, 20 / 35.1, 20 / 30.1], [0.6, 1, 0.25, 0, 0]], rtol=1e-5
    )
    np.testing.assert_allclose(told[1, 0], [[0, 0.5, 0, 20 / 35.1, 0], [0.5, 1, 0.25, 0, 0]], rtol=1e-5)
    np.testing.assert_array_equal(class_features(facts, rows, np)[0], told[..., :3])
