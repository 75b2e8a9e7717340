"""The published rules: a minute's batch goes from task to task."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.stream_autoscaling.random_jobs import random_job

from trimtab.core.errors import WorkloadError
from trimtab.stream_autoscaling.job import Edge, Job, Vertex
from trimtab.stream_autoscaling.simulator.paper import PaperRules, PaperSimulator
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace


def per_minute(*counts: float) -> RateTrace:
    return RateTrace(np.array(counts) / 60, 60, Provenance("by hand"))


def one_task(seconds_per_record: float) -> Job:
    return Job("one", (Vertex(name="task", service_ms=1000 * seconds_per_record),), ())


def test_a_batch_is_split_over_the_instances():
    # 11 records over 5 instances: one has 3, which take 3 x 6 s. Busy: all five for 18 s of each minute.
    simulator = PaperSimulator([one_task(6.0)], [per_minute(*[11] * 60)], seeds=[0])
    outcome = simulator.step(simulator.snapshot().parallelism)
    assert outcome.latency_s[0] == pytest.approx(18)
    latency_min, utilisation = simulator.components
    assert latency_min[0] == pytest.approx(0.3) and utilisation[0] == pytest.approx(0.3)
    assert outcome.rewards[0] == pytest.approx(-0.7 * 0.3 + 0.3 * 0.3)
    assert outcome.slots.tolist() == [5]


def test_an_overloaded_task_queues_batches_and_silence_counts_as_age():
    # A batch takes 90 s and one comes every minute: batch k leaves at 1.5 (k + 1) minutes, 0.5 k + 1.5 old.
    simulator = PaperSimulator([one_task(1.5)], [per_minute(*[300] * 60)], seeds=[0])
    simulator.step(simulator.snapshot().parallelism)
    latency = simulator.snapshot().samples.latency_s[0] / 60
    assert latency[1] == pytest.approx(1.5)  # batch 0 leaves at 1.5
    assert latency[3] == pytest.approx(2.0)  # batch 1 at 3.0
    assert latency[2] == pytest.approx(3 - 1)  # nobody leaves between 2 and 3: batch 1 is 2 minutes old
    waiting = simulator.snapshot().samples.pending[0, :, 0] / 300
    # Begun at 0, 1.5, 3, ...: at the end of minute m there have come m + 1 batches.
    assert waiting[:4].tolist() == [0, 0, 1, 1]


def test_only_a_change_restarts_and_what_was_begun_is_done_again():
    job, trace = one_task(1.0), per_minute(*[250] * 120)
    simulator = PaperSimulator([job], [trace], PaperRules(span_min=60), seeds=[0])
    first = simulator.step(np.array([[5]]))
    assert not first.rescaled[0] and first.latency_s[0] == pytest.approx(50)
    second = simulator.step(np.array([[10]]))
    # The restart takes a minute, a batch 25 s then: batch 60 leaves 85 s after it came, batch 61 after 50 s.
    samples = simulator.snapshot().samples
    assert second.rescaled[0]
    assert samples.latency_s[0, 1] == pytest.approx((85 + 50) / 2)
    assert samples.latency_s[0, -1] == pytest.approx(25)


def test_a_task_waits_for_all_parents_to_finish_the_batch():
    vertices = tuple(Vertex(name=n, service_ms=ms) for n, ms in (("a", 500.0), ("b", 2000.0), ("c", 1000.0)))
    job = Job("join", vertices, (Edge(0, 2), Edge(1, 2)))
    simulator = PaperSimulator([job], [per_minute(*[50] * 60)], seeds=[0])
    outcome = simulator.step(simulator.snapshot().parallelism)
    assert outcome.latency_s[0] == pytest.approx(20 + 10)  # the slower parent, then c


def test_limits_are_those_of_the_paper():
    job = Job("many", tuple(Vertex(name=f"t{i}", service_ms=1) for i in range(30)), ())
    simulator = PaperSimulator([job], [per_minute(*[5] * 120)], seeds=[0])
    assert simulator.snapshot().parallelism.sum() == 150
    simulator.step(np.full((1, 30), 99))
    assert simulator.snapshot().parallelism.max() <= 10 and simulator.snapshot().parallelism.sum() <= 200


def finish_times(job: Job, sizes: np.ndarray, parallelism: list[np.ndarray], span: int) -> np.ndarray:
    """When each batch leaves, by the definition, with the restarts that the changes of parallelism bring."""
    count = len(job.vertices)
    parents = [[e.source for e in job.edges if e.target == t] for t in range(count)]
    finish = np.full((len(sizes), count), np.inf)
    done = np.zeros(finish.shape, bool)
    free = np.zeros(count)
    for interval, present in enumerate(parallelism):
        begin, end = interval * span, (interval + 1) * span
        if interval and (present != parallelism[interval - 1]).any():
            redo = finish > begin
            finish[redo], done[redo], free[:] = np.inf, False, begin + 1.0
        for task in range(count):
            for batch in range(min(end, len(sizes))):
                ready = max([float(batch)] + [finish[batch, p] for p in parents[task]])
                start = max(ready, free[task])
                if not done[batch, task] and start < end and (batch == 0 or done[batch - 1, task]):
                    share = math.ceil(sizes[batch] / min(sizes[batch], present[task])) if sizes[batch] else 0
                    finish[batch, task] = free[task] = start + share * job.vertices[task].service_ms / 60_000
                    done[batch, task] = True
    return finish[:, job.is_sink].max(1)


@pytest.mark.parametrize("seed", range(12))
def test_batches_leave_when_the_definition_says(seed):
    rng = np.random.default_rng(seed)
    job = random_job(rng, plain=True)
    sizes = rng.integers(0, 400, 60).astype(float)
    sizes[0] = 7
    span = 10
    simulator = PaperSimulator([job], [per_minute(*sizes)], PaperRules(span_min=span), seeds=[0])
    chosen, latencies = [], []
    for _ in range(6):
        wanted = simulator.snapshot().parallelism
        if rng.random() < 0.6:
            wanted = rng.integers(1, 11, wanted.shape)
        if not chosen:
            wanted = simulator.snapshot().parallelism
        simulator.step(wanted)
        chosen.append(simulator.snapshot().parallelism[0])
        latencies += simulator.snapshot().samples.latency_s[0].tolist()
    leaves = finish_times(job, sizes, chosen, span)
    for minute in range(60):
        inside = (leaves >= minute) & (leaves < minute + 1)
        oldest = np.flatnonzero(leaves >= minute + 1)
        age = max(0.0, minute + 1 - oldest[0]) if oldest.size else 0.0
        expected = (leaves - np.arange(60))[inside].mean() if inside.any() else age
        assert latencies[minute] / 60 == pytest.approx(expected), minute


def test_a_long_overload_makes_room_for_its_batches():
    simulator = PaperSimulator([one_task(10.0)], [per_minute(*[300] * 600)], seeds=[0])
    while not simulator.ended[0]:
        simulator.step(simulator.snapshot().parallelism)
    # A batch takes 10 minutes: 59 leave within 600, the last one that does is 10 x 59 - 58 minutes old.
    episode = simulator.episodes("static")[0]
    assert episode.left.sum() * 3600 == pytest.approx(59 * 300)
    assert episode.backlog[-1] == pytest.approx(540 * 300)


def test_minutes_of_steps_that_floats_make_a_hair_shorter_are_whole():
    trace = RateTrace(np.full(11, 1.0), 120 / 11, Provenance("by hand"))
    assert trace.length_s < 120
    simulator = PaperSimulator([one_task(0.1)], [trace], PaperRules(span_min=2), seeds=[0])
    assert simulator.step(simulator.snapshot().parallelism).ended.all()


def test_a_start_of_another_shape_or_of_parts_is_refused():
    rules, days = PaperRules(span_min=2), [per_minute(5, 5)]
    for start, said in (([[2, 2]], r"shape \(1, 2\); give \(1, 1\)"), ([[2.5]], "give whole numbers")):
        with pytest.raises(WorkloadError, match=said):
            PaperSimulator([one_task(0.1)], days, rules, seeds=[0], parallelism=np.array(start))


def test_short_traces_are_refused():
    with pytest.raises(WorkloadError, match="covers 30 minutes, less than one interval of 60"):
        PaperSimulator([one_task(1.0)], [per_minute(*[5] * 30)], seeds=[0])
