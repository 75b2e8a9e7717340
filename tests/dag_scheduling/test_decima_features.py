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
    facts_of,
    paper_features,
    rich_features,
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
