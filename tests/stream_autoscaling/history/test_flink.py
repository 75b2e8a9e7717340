"""Flink's answers to a job: work, selectivities, scaling, restarts, and the traps of its metrics."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stream_autoscaling.history.flink_answers import (
    FakeJob,
    FakeVertex,
    checkpoint_details,
    checkpoints,
    counting_job,
    rescale,
    saved,
)

from trimtab.core.errors import HistoryError, TrimtabError
from trimtab.stream_autoscaling.history.flink import import_flink
from trimtab.stream_autoscaling.history.flink_fits import service_and_scaling


def test_the_job_that_was_watched(tmp_path: Path) -> None:
    job, report = import_flink(saved(tmp_path, counting_job().watched(4)))
    assert job.name == "counting"
    assert [vertex.name for vertex in job.vertices] == ["source", "parse", "count", "sink"]
    assert [vertex.service_ms for vertex in job.vertices] == pytest.approx([0.05, 1, 7, 0.5])
    assert [edge.selectivity for edge in job.edges] == pytest.approx([1, 0.5, 0.2])
    assert [edge.forward for edge in job.edges] == [True, False, False]
    assert [vertex.key_groups for vertex in job.vertices] == [0, 0, 64, 0]
    assert [vertex.most_parallelism for vertex in job.vertices] == [128, 128, 64, 128]
    # A sink sends nothing, so the size of its records is the usual one.
    assert [vertex.record_bytes for vertex in job.vertices] == pytest.approx([100, 40, 100, 200])
    assert {vertex.slot_group for vertex in job.vertices} == {"default"}
    assert job.usual_rate == pytest.approx(100)
    assert report.read == {"answers": 4, "pairs of samples": 3, "vertices": 4}
    assert "a vertex seen at one parallelism only scales linearly" in report.assumptions
    assert "no checkpoint is known: the job has no state" in report.assumptions
    assert any("how long one takes stays a setting" in sentence for sentence in report.assumptions)


def test_the_flow_of_the_job_is_what_was_seen(tmp_path: Path) -> None:
    job, _ = import_flink(saved(tmp_path, counting_job().watched(3)))
    assert job.usual_rate * job.flow == pytest.approx([100, 100, 50, 10])
    assert job.usual_rate * job.demand_ms / 1000 == pytest.approx([0.005, 0.1, 0.35, 0.005])


def test_counters_that_begin_anew_with_a_restart(tmp_path: Path) -> None:
    """Differences are taken within a run only: 7 ms per record at both parallelisms, so linear scaling."""
    fake = counting_job()
    answers = fake.watched(3)
    fake.rescale([1, 1, 4, 1], took_s=2.0)
    answers += fake.watched(3)
    job, report = import_flink(saved(tmp_path, answers))
    assert job.vertices[2].service_ms == pytest.approx(7)
    assert job.vertices[2].scaling == pytest.approx(1)
    assert job.usual_rate == pytest.approx(100)
    assert report.read["pairs of samples"] == 4
    assert report.read["runs between restarts"] == 2
    assert report.measured == {"restart_s": 2.0, "restarts seen": 1}


def test_scaling_shows_at_two_parallelisms(tmp_path: Path) -> None:
    """With b = 0.8, four subtasks are busy for 7 x 4^0.2 ms per record."""
    fake = counting_job()
    answers = fake.watched(3)
    fake.rescale([1, 1, 4, 1], took_s=1.0)
    fake.vertices[2].busy_ms = 7 * 4**0.2
    answers += fake.watched(3)
    job, _ = import_flink(saved(tmp_path, answers))
    assert job.vertices[2].service_ms == pytest.approx(7)
    assert job.vertices[2].scaling == pytest.approx(0.8)
    assert job.vertices[1].scaling == 1


def test_a_fit_keeps_within_reason() -> None:
    """Work that falls with parallelism is noise: b stays 1, and the work is the mean."""
    fit = service_and_scaling(np.array([1, 2]), np.array([10.0, 10.0]), np.array([80.0, 20.0]))
    assert fit.scaling == 1
    assert fit.service_ms == pytest.approx(4)
    steep = service_and_scaling(np.array([1, 2]), np.array([10.0, 10.0]), np.array([10.0, 80.0]))
    assert steep.scaling == 0.5
    assert service_and_scaling(np.array([1]), np.array([10.0]), np.array([0.0])).service_ms == 0


def test_a_counter_that_falls_within_a_run_is_left_out(tmp_path: Path) -> None:
    answers = counting_job().watched(4)
    answers[2]["vertices"][1]["metrics"]["read-records"] = 3
    job, report = import_flink(saved(tmp_path, answers))
    assert report.dropped == {"pair of samples between which a counter was reset": 1}
    assert job.name == "counting"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda answer: answer.update(state="RESTARTING"), "sample while the job was not running"),
        (
            lambda answer: answer["vertices"][2].update(status="CREATED"),
            "sample while the job was not running",
        ),
        (
            lambda answer: answer["vertices"][2]["metrics"].update({"read-records-complete": False}),
            "sample with incomplete metrics",
        ),
        (
            lambda answer: answer["vertices"].pop(),
            "sample with other vertices: the job was changed",
        ),
    ],
)
def test_incomplete_samples_are_left_out(spoil, reason: str, tmp_path: Path) -> None:
    """No difference reaches across one either."""
    answers = counting_job().watched(5)
    spoil(answers[2])
    job, report = import_flink(saved(tmp_path, answers))
    assert job.usual_rate == pytest.approx(100)
    assert report.dropped == {reason: 1}
    assert report.read["pairs of samples"] == 2


def test_the_clock_is_what_subtasks_account_for(tmp_path: Path) -> None:
    """Metrics came 5 s late in the second answer: 15 s by the wall, 10 s by the accounts."""
    answers = counting_job().watched(2)
    answers[1]["now"] += 5000
    job, _ = import_flink(saved(tmp_path, answers))
    assert job.usual_rate == pytest.approx(100)


def join_job() -> FakeJob:
    """Two streams into a join; one of them also goes elsewhere."""
    return FakeJob(
        [
            FakeVertex("bids", written=100),
            FakeVertex("auctions", written=20),
            FakeVertex("join", [(0, "HASH"), (1, "HASH")], read=110, written=11),
            FakeVertex("archive", [(0, "REBALANCE")], read=100),
        ]
    )


def test_inputs_of_a_join_are_told_apart(tmp_path: Path) -> None:
    """Auctions only go to the join: 20. The archive reads 100 bids. What is left, 90, came from bids."""
    job, report = import_flink(saved(tmp_path, join_job().watched(3)))
    ratios = {(edge.source, edge.target): edge.selectivity for edge in job.edges}
    assert ratios == pytest.approx({(0, 2): 0.9, (1, 2): 1.0, (0, 3): 1.0})
    assert job.source_shares[:2] == pytest.approx([100 / 120, 20 / 120])
    assert not any("told apart" in sentence for sentence in report.assumptions)


def test_inputs_that_cannot_be_told_apart_are_shared_out(tmp_path: Path) -> None:
    fake = join_job()
    fake.vertices.append(FakeVertex("copy", [(1, "REBALANCE")], read=20))
    job, report = import_flink(saved(tmp_path, fake.watched(3)))
    ratios = {(edge.source, edge.target): edge.selectivity for edge in job.edges}
    # 110 read, 100 and 20 sent: 110 x 100 / 120 over 100, and the same ratio for the other.
    assert ratios[0, 2] == pytest.approx(110 / 120)
    assert ratios[1, 2] == pytest.approx(110 / 120)
    assert any("told apart" in sentence for sentence in report.assumptions)


def test_state_by_vertex_or_over_the_keyed(tmp_path: Path) -> None:
    answers: list[Any] = counting_job().watched(2)
    saved(tmp_path, [*answers, checkpoints(60_000_000)])
    job, report = import_flink(str(tmp_path))
    assert [vertex.state_mb for vertex in job.vertices] == [0, 0, 60, 0]
    assert "state is spread evenly over the keyed vertices" in report.assumptions
    saved(
        tmp_path, [*answers, checkpoints(60_000_000), checkpoint_details({"v0": 1_000_000, "v2": 2_500_000})]
    )
    job, _ = import_flink(str(tmp_path))
    assert [vertex.state_mb for vertex in job.vertices] == [1, 0, 2.5, 0]
    # No checkpoint has been completed yet.
    saved(tmp_path, [*answers, {"counts": {}, "latest": {"completed": None}}, {}])
    job, report = import_flink(str(tmp_path))
    assert sum(vertex.state_mb for vertex in job.vertices) == 0
    assert report.dropped == {"answer of another kind": 1}


def test_state_is_that_of_the_newest_checkpoint_of_the_job(tmp_path: Path) -> None:
    """Files are read by name, and 'checkpoint-12' comes before 'checkpoint-2'."""
    answers: list[Any] = counting_job().watched(2)
    by_name = [checkpoint_details({"v2": mb * 1_000_000}, number) for number, mb in ((12, 90), (2, 10))]
    job, report = import_flink(saved(tmp_path, [*answers, *by_name, checkpoint_details({"other": 5}, 40)]))
    assert [vertex.state_mb for vertex in job.vertices] == [0, 0, 90, 0]
    assert report.dropped == {"details of a checkpoint of another job": 1}
    saved(tmp_path, [*answers, checkpoints(80_000_000, 12), checkpoints(10_000_000, 2), {}])
    job, _ = import_flink(str(tmp_path))
    assert [vertex.state_mb for vertex in job.vertices] == [0, 0, 80, 0]


def test_restarts_from_the_history_of_rescales(tmp_path: Path) -> None:
    """Standing still counts, not the minute of waiting for a checkpoint while the job runs."""
    history = [
        rescale(200, 100, 400),
        rescale(300, 200, 1000),
        rescale(100, 0, 1900),
        rescale(0, 9000, 9000, cause="INITIAL_SCHEDULE"),
        rescale(5000, 0, 0, end="FAILED"),
        rescale(),
    ]
    saved(tmp_path, [*counting_job().watched(2), history])
    _, report = import_flink(str(tmp_path))
    assert report.measured["restart_s"] == pytest.approx(1.5)
    assert report.measured["restarts seen"] == 3
    assert report.measured["restart_spread"] == pytest.approx(np.std(np.log([0.7, 1.5, 2.0])))
    (tmp_path / "answer-002.json").write_text(json.dumps(rescale(0, 0, 800)))
    _, report = import_flink(str(tmp_path))
    assert report.measured == {"restart_s": 0.8, "restarts seen": 1}


def test_slot_sharing_groups_and_names(tmp_path: Path) -> None:
    fake = counting_job()
    for vertex, group in zip(fake.vertices, ("x", "x", "y", "x"), strict=True):
        vertex.group = group
    fake.vertices[3].name = "parse"
    job, _ = import_flink(saved(tmp_path, fake.watched(2)))
    assert [vertex.slot_group for vertex in job.vertices] == ["group 1", "group 1", "group 2", "group 1"]
    assert [vertex.name for vertex in job.vertices] == ["source", "parse", "count", "parse (2)"]


def test_vertices_may_come_in_any_order(tmp_path: Path) -> None:
    answers = counting_job().watched(2)
    for answer in answers:
        answer["vertices"].reverse()
        answer["plan"]["nodes"].reverse()
    job, _ = import_flink(saved(tmp_path, answers))
    assert [vertex.name for vertex in job.vertices] == ["source", "parse", "count", "sink"]


def test_a_source_of_the_old_interface(tmp_path: Path) -> None:
    """It reports "NaN" for its busy time, so the wall clock must serve."""
    answers = counting_job().watched(3)
    for answer in answers:
        answer["vertices"][0]["metrics"]["accumulated-busy-time"] = "NaN"
    saved(tmp_path, answers)
    with pytest.raises(HistoryError, match="vertex 'source' reports no busy time"):
        import_flink(str(tmp_path))
    job, report = import_flink(str(tmp_path), keep_going=True)
    assert job.vertices[0].service_ms == 1e-4
    assert job.usual_rate == pytest.approx(100)
    assert report.lost == {"vertices whose work is unknown, taken for next to nothing": 1}


def test_a_vertex_in_the_middle_without_busy_time(tmp_path: Path) -> None:
    """No source, so nothing is said of the interface of sources."""
    answers = counting_job().watched(3)
    for answer in answers:
        answer["vertices"][2]["metrics"]["accumulated-busy-time"] = "NaN"
    with pytest.raises(HistoryError, match=r"'count' reports no busy time \(NaN in every answer\)"):
        import_flink(saved(tmp_path, answers))


def test_a_vertex_on_no_edge(tmp_path: Path) -> None:
    """Where the plan lost its inputs it would pass for a source of its own."""
    answers = counting_job().watched(3)
    for answer in answers:
        answer["plan"]["nodes"][3].pop("inputs")
    saved(tmp_path, answers)
    with pytest.raises(HistoryError, match="'sink' is source and sink in one"):
        import_flink(str(tmp_path))
    with pytest.raises(TrimtabError, match="1 of 4 vertices on no edge, such as 'sink'"):
        import_flink(str(tmp_path), keep_going=True)


def test_a_job_on_which_nothing_flows(tmp_path: Path) -> None:
    fake = counting_job()
    fake.vertices[2].written = fake.vertices[3].read = 0
    saved(tmp_path, fake.watched(3))
    with pytest.raises(HistoryError, match="vertex 'sink' worked on no record"):
        import_flink(str(tmp_path))
    job, report = import_flink(str(tmp_path), keep_going=True)
    assert job.edges[2].selectivity == 1e-6
    assert report.lost["edges on which nothing went"] == 1


def test_a_job_in_one_chain_says_why_nothing_is_counted(tmp_path: Path) -> None:
    """Data flows, but nothing of it from vertex to vertex: to record it again would not help."""
    saved(tmp_path, FakeJob([FakeVertex("all in one")]).watched(3))
    with pytest.raises(HistoryError, match=r"'all in one' is source and sink in one.*operator-chaining"):
        import_flink(str(tmp_path))


@pytest.mark.parametrize("spoilt", ["NaN", -1e9])
def test_busy_time_that_was_told_only_while_nothing_came(spoilt: Any, tmp_path: Path) -> None:
    """One run has records without busy time, the next busy time without records: the work is unknown."""
    fake = counting_job()
    answers = fake.watched(2)
    answers[1]["vertices"][2]["metrics"]["accumulated-busy-time"] = spoilt
    answers[1]["vertices"][2]["metrics"]["accumulated-idle-time"] = 2e9
    fake.rescale([1, 1, 2, 1], took_s=2.0)
    fake.vertices[2].read = 0
    saved(tmp_path, answers + fake.watched(2))
    with pytest.raises(HistoryError, match=r"'count' reports no busy time for the stretches in which it"):
        import_flink(str(tmp_path))
    job, report = import_flink(str(tmp_path), keep_going=True)
    assert job.vertices[2].service_ms == 1e-4
    assert report.lost == {"vertices whose work is unknown, taken for next to nothing": 1}


def test_an_edge_on_which_nothing_goes(tmp_path: Path) -> None:
    fake = join_job()
    fake.vertices[1].written = 0.0
    fake.vertices[2].read = 90
    saved(tmp_path, fake.watched(3))
    with pytest.raises(HistoryError, match="vertex 'auctions' worked on no record"):
        import_flink(str(tmp_path))
    job, _ = import_flink(str(tmp_path), keep_going=True)
    assert job.source_shares[1] < 1e-9


def test_a_join_that_reads_one_side_only(tmp_path: Path) -> None:
    """All 20 records the join reads are auctions, so no bid came."""
    fake = join_job()
    fake.vertices[2].read = 20
    saved(tmp_path, fake.watched(3))
    with pytest.raises(HistoryError, match="nothing went from 'bids' to 'join'; record while data flows"):
        import_flink(str(tmp_path))
    job, report = import_flink(str(tmp_path), keep_going=True)
    assert {edge.selectivity for edge in job.edges} == {1e-6, 1.0}
    assert report.lost == {"edges on which nothing went": 1}


def test_too_few_samples(tmp_path: Path) -> None:
    fake = counting_job()
    answers = fake.watched(1)
    fake.rescale([2, 1, 1, 1], took_s=1.0)
    answers += fake.watched(1)
    with pytest.raises(HistoryError, match="no two complete samples of one run among 2 answers"):
        import_flink(saved(tmp_path, answers))


def test_several_jobs(tmp_path: Path) -> None:
    first, second = counting_job(), counting_job()
    second.jid, second.name = "b2", "other"
    saved(tmp_path, first.watched(2) + second.watched(2))
    with pytest.raises(HistoryError, match=r"several jobs \(a1, b2\); choose one"):
        import_flink(str(tmp_path))
    assert import_flink(str(tmp_path), job="b2")[0].name == "other"
    with pytest.raises(HistoryError, match="about job c3"):
        import_flink(str(tmp_path), job="c3")


def test_one_answer_a_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(answer) + "\n" for answer in counting_job().watched(3)))
    assert import_flink(str(path))[0].usual_rate == pytest.approx(100)
    path.write_text(path.read_text() + "\n \n")
    assert import_flink(str(path))[1].read["answers"] == 3
    path.write_text(path.read_text() + "{torn\n")
    with pytest.raises(HistoryError, match=r"answers\.jsonl: line 6 is not JSON"):
        import_flink(str(tmp_path))
    _, report = import_flink(str(tmp_path), keep_going=True)
    assert report.lost == {"files that are not JSON": 1}


def test_names_of_files_may_be_capitals(tmp_path: Path) -> None:
    path = tmp_path / "ANSWERS.JSONL"
    path.write_text("".join(json.dumps(answer) + "\n" for answer in counting_job().watched(3)))
    assert import_flink(str(path))[1].read["answers"] == import_flink(str(tmp_path))[1].read["answers"] == 3
