"""Jobs: what they refuse, the frozen ones, Nexmark's ratios, and laws of random ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.errors import RegistryError, WorkloadError
from trimtab.stream_autoscaling.job import Edge, Job, Vertex, graph_of, load_job, narrowest, save_job
from trimtab.stream_autoscaling.workload.jobs import (
    FROZEN,
    JOBS,
    described_job,
    frozen_entries,
    make_job,
)
from trimtab.stream_autoscaling.workload.synthetic import dress

NUMPY_NUMBERS: list[tuple[Any, float]] = [(np.int64, 64), (np.float32, 1.5), (np.int64, 0), (np.int64, 1)]
SIZES = {"small": range(12, 15), "medium": range(18, 23), "large": range(35, 47)}


def busy_subtasks(job: Job) -> np.ndarray:
    """Subtasks each vertex keeps busy at the usual rate, if scaling were linear."""
    return job.demand_ms * job.usual_rate / 1000


def shape_of(job: Job) -> list[list[int]]:
    return [
        [edge.source for edge in job.edges if edge.target == vertex] for vertex in range(len(job.vertices))
    ]


def is_connected(job: Job) -> bool:
    reached = {0}
    for _ in job.vertices:
        for edge in job.edges:
            if edge.source in reached or edge.target in reached:
                reached |= {edge.source, edge.target}
    return len(reached) == len(job.vertices)


def vertex(name: str, **numbers: float) -> Vertex:
    return Vertex(**{"name": name, "service_ms": 1.0, **numbers})  # pyright: ignore[reportArgumentType]


TWO = Job("two", (vertex("read"), vertex("count")), (Edge(0, 1, 0.5),))


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_jobs_keep_to_their_description(name: str) -> None:
    job = make_job(name)
    assert len(job.vertices) in SIZES[name.split("-")[0]]
    assert is_connected(job)
    assert not (job.is_source & job.is_sink).any()
    assert 0.39 <= busy_subtasks(job).sum() / (5 * len(job.vertices)) <= 0.61
    assert all(0.3 <= edge.selectivity <= 2 for edge in job.edges)
    # No vertex sees more than a few times what arrives.
    assert job.flow.max() <= 3
    assert all(0.8 <= one.scaling <= 1 for one in job.vertices)
    assert {one.key_groups for one in job.vertices} == {0, 128}
    assert 0 < max(one.hot_share for one in job.vertices) <= 0.03
    assert 50 <= sum(one.state_mb for one in job.vertices) <= 3000
    assert {one.slot_group for one in job.vertices} == {"default"}


@pytest.mark.parametrize("name", FROZEN)
def test_the_peak_can_be_handled(name: str) -> None:
    """At 2.84 times the mean (ClarkNet's maximum) no vertex needs more than its limit, hot keys included."""
    job = make_job(name)
    for one, busy in zip(job.vertices, 2.84 * busy_subtasks(job), strict=True):
        needed = int(np.ceil(busy ** (1 / one.scaling)))
        assert needed <= one.most_parallelism
        assert one.hot_share * busy < 1


def test_frozen_jobs_are_what_the_code_gives_for_their_shapes() -> None:
    for entry in frozen_entries():
        job = make_job(entry["job"]["name"])
        assert dress(job.name, shape_of(job), seed=entry["seed"]) == job
        assert entry["shape_of"].startswith("alibaba-2018 j_")


def test_the_shapes_are_those_of_the_trace(shared_data: Path) -> None:
    from benchmarks.stream_jobs import entries

    assert json.loads(json.dumps(entries(shared_data))) == list(frozen_entries())


def test_every_name_is_described_and_makes_a_job() -> None:
    assert len(JOBS) == 15
    for name in JOBS:
        assert described_job(name)
        job = make_job(name)
        assert is_connected(job)
        assert job.usual_rate > 0


@given(count=st.integers(2, 60), seed=st.integers(0, 10_000))
def test_random_jobs(count: int, seed: int) -> None:
    job = make_job(f"synthetic:{count}", seed=seed)
    assert len(job.vertices) == count
    assert is_connected(job)
    assert not (job.is_source & job.is_sink).any()
    assert 0.39 <= busy_subtasks(job).sum() / (5 * count) <= 0.61
    assert busy_subtasks(job).max() / busy_subtasks(job).min() <= 1 / 0.15 + 0.01
    # A vertex with many inputs may exceed the 3 it aims at, as no selectivity goes below 0.3.
    assert job.flow.max() <= 10
    assert all(0.3 <= edge.selectivity <= 2 for edge in job.edges)
    assert make_job(f"synthetic:{count}", seed=seed) == job


def test_a_chain_is_the_textbook_case() -> None:
    job = make_job("linear:4")
    assert busy_subtasks(job).tolist() == [1, 2, 4, 1]
    assert [(edge.source, edge.target) for edge in job.edges] == [(0, 1), (1, 2), (2, 3)]
    assert all(
        one.scaling == 1 and not (one.key_groups or one.window_s or one.state_mb) for one in job.vertices
    )


def test_nexmark_ratios() -> None:
    """Of 50 events one is a person, three are auctions and 46 are bids."""
    q20 = make_job("q20")
    assert q20.source_shares[:2] == pytest.approx([46 / 49, 3 / 49])
    assert q20.flow[2] == pytest.approx((46 + 0.2 * 3) / 49)
    q3 = make_job("q3")
    assert q3.flow == pytest.approx([3 / 4, 1 / 4, 1.1 / 4, 0.27 * 1.1 / 4])
    assert q3.usual_rate == 800
    q8 = make_job("q8")
    assert [one.window_s for one in q8.vertices] == [0, 0, 10, 10, 0, 0]
    # Three in four bids from a hot bidder that changes after 5,000 events: 0.75 / (2 s / 0.5 s).
    assert make_job("q11").vertices[1].hot_share == pytest.approx(0.1875, abs=0.001)
    assert q20.vertices[2].hot_share == pytest.approx(0.5 / 12, abs=0.001)


def test_the_measured_job() -> None:
    job = make_job("flink-count")
    count = job.vertices[2]
    assert 100 * count.service_ms / 1000 == pytest.approx(0.718)
    assert 4 / (count.service_ms / 1000) == pytest.approx(557, abs=0.5)


def test_a_job_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    for name in ("medium-2", "q5"):
        job = make_job(name)
        save_job(job, path)
        assert make_job(str(path)) == job
    assert [one.name for one in tmp_path.iterdir()] == ["mine.json"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "expected format 'trimtab-stream-job'"),
        ({"version": 9}, "expected format 'trimtab-stream-job' version 1"),
        ({"vertices": [{"name": "a", "service_ms": 1, "speed": 2}]}, "vertex a has no field 'speed'"),
        ({"vertices": [{"name": "a", "service_ms": "fast"}]}, 'vertex a: service_ms = "fast" is no number'),
        ({"vertices": [{"name": "a"}]}, "vertex a: service_ms is missing; add it"),
        ({"vertices": ["a"]}, "vertex 0 is 'a', no table of fields"),
        ({"owner": "me"}, "job has no field 'owner'; it has name, vertices, edges, usual_rate"),
        ({"edges": 3}, "edges is no list"),
        ({"edges": [{"source": 0, "target": 1, "share": 1}]}, "edge 0 has no field 'share'"),
        ({"usual_rate": "5"}, 'job: usual_rate = "5" is no number'),
        ({"edges": []}, "mine.json: 2 of 2 vertices on no edge, such as 'read'; say what feeds what"),
        ({"usual_rate": 0}, "mine.json: job two: usual_rate = 0"),
        ({"usual_rate": float("nan")}, "usual_rate = nan"),
        ({"edges": [{"source": 0.5, "target": 1}]}, "name vertices by their number"),
    ],
)
def test_bad_job_files(change: dict[str, object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    save_job(TWO, path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(WorkloadError, match=said):
        load_job(path)


def test_a_vertex_that_lost_its_edges_does_not_pass_for_a_source(tmp_path: Path) -> None:
    three = replace(TWO, vertices=(*TWO.vertices, vertex("sink")))
    save_job(three, tmp_path / "three.json")
    with pytest.raises(WorkloadError, match=r"three\.json: 1 of 3 vertices on no edge, such as 'sink'"):
        load_job(tmp_path / "three.json")
    save_job(replace(TWO, vertices=TWO.vertices[:1], edges=()), tmp_path / "one.json")
    assert len(load_job(tmp_path / "one.json").vertices) == 1


def test_files_that_are_no_jobs(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no such file; `trimtab import flink`"):
        make_job(str(tmp_path / "missing.json"))
    path = tmp_path / "list.json"
    path.write_text("[1]")
    with pytest.raises(WorkloadError, match="not a job file; expected"):
        make_job(str(path))
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(WorkloadError, match="not a job file"):
        make_job(str(path))
    with pytest.raises(WorkloadError, match="not a job file"):
        make_job(str(tmp_path) + "/")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("linear:x", "number of vertices"),
        ("linear:0", "1 to 500"),
        ("synthetic:1", "2 to 500"),
        ("medium-1:3", "'medium-1' has no variants"),
        ("q1:3", "'q1' has no variants"),
    ],
)
def test_bad_variants(name: str, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        make_job(name)


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(RegistryError, match=r"did you mean 'stream/medium-1'.*or the path of a job file"):
        make_job("medium1")


def test_broken_jobs_are_refused() -> None:
    with pytest.raises(WorkloadError, match="no vertices"):
        Job("none", (), ())
    with pytest.raises(WorkloadError, match="two vertices are called 'a'"):
        Job("twice", (vertex("a"), vertex("a")), ())
    with pytest.raises(WorkloadError, match="called ''"):
        Job("nameless", (vertex(""),), ())
    with pytest.raises(WorkloadError, match=r"count -> read goes back; .* break the cycle"):
        replace(TWO, edges=(Edge(0, 1), Edge(1, 0)))
    with pytest.raises(WorkloadError, match="edge 0 -> 2, but its vertices are 0 to 1"):
        replace(TWO, edges=(Edge(0, 2),))
    with pytest.raises(WorkloadError, match="read -> count twice"):
        replace(TWO, edges=(Edge(0, 1), Edge(0, 1, 2)))
    for selectivity in (0.0, -1.0, float("nan")):
        with pytest.raises(WorkloadError, match=r"selectivity .* from read"):
            replace(TWO, edges=(Edge(0, 1, selectivity),))
    with pytest.raises(WorkloadError, match=r"least_parallelism = 5 is above most_parallelism = 4; lower it"):
        Job("bounds", (vertex("a", least_parallelism=5, most_parallelism=4),), ())
    with pytest.raises(WorkloadError, match=r"4 key groups .* least_parallelism = 5; lower it"):
        Job("keys", (vertex("a", key_groups=4, least_parallelism=5),), ())
    with pytest.raises(
        WorkloadError, match=r"vertex a: hot_share = 0\.5 .* nothing is keyed; give key_groups"
    ):
        Job("keys", (vertex("a", hot_share=0.5),), ())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("service_ms", 0),
        ("service_ms", float("nan")),
        ("scaling", 1.5),
        ("hot_share", -0.1),
        ("window_s", -1),
        ("state_mb", float("inf")),
        ("record_bytes", 0),
        ("least_parallelism", 0),
        ("most_parallelism", 0),
    ],
)
def test_numbers_out_of_range_name_the_vertex(field: str, value: float) -> None:
    with pytest.raises(WorkloadError, match=f"job one, vertex a: {field} = .* out of range; use"):
        Job("one", (vertex("a", **{field: value}),), ())


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("service_ms", None, "service_ms = None is no number"),
        ("least_parallelism", "2", "least_parallelism = '2' is no number"),
        ("most_parallelism", True, "most_parallelism = True is no number"),
        ("key_groups", 2.5, r"key_groups = 2\.5 is no whole number"),
        ("most_parallelism", 7.5, r"most_parallelism = 7\.5 is no whole number"),
    ],
)
def test_what_is_no_number_or_no_whole_one_names_the_vertex(field: str, value: Any, said: str) -> None:
    with pytest.raises(WorkloadError, match=f"job one, vertex a: {said}"):
        Job("one", (vertex("a", **{field: value}),), ())


def test_selectivities_and_rates_that_are_no_numbers_are_refused() -> None:
    unsaid: Any = None
    with pytest.raises(WorkloadError, match="selectivity None from read"):
        replace(TWO, edges=(Edge(0, 1, unsaid),))
    with pytest.raises(WorkloadError, match="usual_rate = None; give records per second"):
        replace(TWO, usual_rate=unsaid)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    groups, state, begin, end = (kind(value) for kind, value in NUMPY_NUMBERS)
    vertices = (vertex("a"), vertex("b", key_groups=groups, state_mb=state))
    job = Job("counted", vertices, (Edge(begin, end),))
    save_job(job, tmp_path / "job.json")
    assert load_job(tmp_path / "job.json") == job


def test_flow_adds_up_over_inputs() -> None:
    """A diamond: 1 -> 0.5 and 2 -> 0.5 + 2 x 0.25 = 1 record per record at the end."""
    job = Job(
        "diamond",
        tuple(vertex(name) for name in "abcd"),
        (Edge(0, 1, 0.5), Edge(0, 2, 2), Edge(1, 3), Edge(2, 3, 0.25)),
    )
    assert job.flow.tolist() == [1, 0.5, 2, 1]
    assert job.is_source.tolist() == [True, False, False, False]
    assert job.is_sink.tolist() == [False, False, False, True]


def test_the_narrowest_vertex_bounds_the_job() -> None:
    """4 subtasks do the work of 2; a hot key with a quarter of all lets no more than four count."""
    rooted = vertex("read", service_ms=10, scaling=0.5, most_parallelism=4)
    hot = vertex("count", service_ms=5, key_groups=128, hot_share=0.25)
    assert narrowest(Job("one", (rooted,), ())) == (200.0, "read")
    assert narrowest(Job("two", (rooted, hot), (Edge(0, 1, 10.0),))) == (80.0, "count")


def test_a_batch_of_jobs_is_padded() -> None:
    keyed = Job("keyed", (vertex("a", key_groups=16), vertex("b", slot_group="other")), ())
    graph = graph_of([make_job("linear:3"), keyed])
    assert graph.exists.tolist() == [[True] * 3, [True, True, False]]
    assert graph.most.tolist() == [[128] * 3, [16, 128, 0]]
    assert graph.slot_group.tolist() == [[0, 0, 0], [0, 1, 0]]
    assert graph.selectivity[0].tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
