"""The compact autoscaler inside the compiled engine decides as the one on numpy, number for number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trimtab.core.errors import ActionError
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.heuristics.measures import blocked_by_bursts, window
from trimtab.stream_autoscaling.problem import Floats
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
from trimtab.stream_autoscaling.sure.compact import SIZE, CompactPolicy, first_numbers, widths
from trimtab.stream_autoscaling.sure.compact_engine import play_out
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace, stretch_of

SEEDS = [1, 2]


def simulator_of(
    jobs: list[str], hours: float, candidates: int, *, times: float = 1.0, **changes: Any
) -> StreamSimulator:
    """Each job with two stretches of a web server's load, or times so much, once for each candidate."""
    deployment = Deployment(substep_ms=2000, **changes)
    made = [make_job(name) for name in jobs]
    loads = {job.name: TraceSettings(mean_rate=times * job.usual_rate) for job in made}
    drawn = [
        (
            job,
            stretch_of(draw_trace(loads[job.name], job, seed=seed), 3600 * hours, 60.0, seed=seed),
            seed,
        )
        for job in made
        for seed in SEEDS
    ] * candidates
    return StreamSimulator(
        [job for job, _, _ in drawn],
        [trace for _, trace, _ in drawn],
        deployment,
        seeds=[seed for _, _, seed in drawn],
    )


def candidates_of(simulator: StreamSimulator) -> Floats:
    """Numbers all over the place, other ones for every environment."""
    luck = np.random.default_rng(8)
    return first_numbers() + 2 * widths() * luck.standard_normal((simulator.size, SIZE))


def compare(
    jobs: list[str], hours: float, candidates: int, *, times: float = 1.0, **changes: Any
) -> StreamSimulator:
    from_python, compiled = (simulator_of(jobs, hours, candidates, times=times, **changes) for _ in range(2))
    numbers = candidates_of(from_python)
    decider = CompactPolicy("numpy", numbers).begin(from_python.graph)
    rewards, slots = np.zeros(from_python.size), np.zeros(from_python.size)
    while not from_python.ended.all():
        over = from_python.ended
        outcome = from_python.step(decider.decide(from_python.snapshot()))
        rewards += outcome.rewards
        slots += np.where(over, 0, outcome.slots)
    lived = play_out(compiled, numbers)
    np.testing.assert_array_equal(lived.rewards, rewards)
    np.testing.assert_array_equal(lived.slots, slots)
    for field in ("parallelism", "wanted", "processed_total"):
        np.testing.assert_array_equal(compiled.state.vertices[field], from_python.state.vertices[field])
    assert compiled.ended.all()
    return compiled


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"history": 2},
        {"interval_s": 120, "history": 20},
        {"missing": 0.3},
        {"cooldown_s": 900},
    ],
)
def test_it_lives_through_the_same_as_asked_from_python(changes: dict[str, Any]) -> None:
    lived = compare(["linear:2", "linear:4"], 1.0, 1, **changes)
    assert lived.state.run["restarts"].sum() > 0


def test_bursts_block_it_as_they_block_it_from_python() -> None:
    """The windows of `medium-2` send all at once to vertices that idle in between."""
    lived = compare(["medium-2"], 1.0, 1)
    snapshot = lived.snapshot()
    seen = window(snapshot, 900.0)
    assert (blocked_by_bursts(seen, snapshot.graph) > 0.1).any()


def test_what_no_parallelism_can_manage_is_lived_through_alike() -> None:
    """Ten times the usual load: vertices have all they may have, and checkpoints wait behind the backlog."""
    lived = compare(["small-1", "large-1"], 2.0, 2, times=10.0)
    snapshot = lived.snapshot()
    assert ((snapshot.parallelism == snapshot.graph.most) & snapshot.graph.exists).any()
    assert (lived.state.run["backlog"] > 1e6).any() and (snapshot.since_checkpoint_s > 30).any()
    assert (lived.state.run["restarts"] > 0).sum() >= 6


def test_slots_bind_it_as_they_bind_it_from_python() -> None:
    jobs = ["linear:2", "linear:4"]
    bound, free = compare(jobs, 1.0, 1, times=2.0, slots=3), compare(jobs, 1.0, 1, times=2.0)
    assert (bound.state.run["slots"] <= 3).all() and (free.state.run["slots"] > 3).any()


@pytest.mark.slow
def test_all_six_jobs_live_through_the_same() -> None:
    jobs = ["small-1", "small-2", "medium-1", "medium-2", "large-1", "large-2"]
    lived = compare(jobs, 6.0, 4)
    assert lived.state.run["restarts"].sum() > 100


def test_numbers_of_another_shape_and_a_second_life_are_refused() -> None:
    simulator = simulator_of(["linear:2"], 0.5, 1)
    with pytest.raises(ActionError, match=r"numbers of shape \(1, 155\); give \(2, 155\)"):
        play_out(simulator, first_numbers()[None])
    play_out(simulator, candidates_of(simulator))
    with pytest.raises(ActionError, match="some have lived already; reset the simulator first"):
        play_out(simulator, candidates_of(simulator))
