"""Answers of Flink that are damaged or of another kind: each is refused in a line that names it."""

from pathlib import Path
from typing import Any

import pytest
from tests.stream_autoscaling.history.flink_answers import counting_job, saved

from trimtab.core.errors import HistoryError
from trimtab.stream_autoscaling.history.flink import import_flink


def spoiled(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    answer = counting_job().details()
    place: Any = answer
    for part in path[:-1]:
        place = place[part]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (spoiled(("plan", "nodes"), None), "not Flink's answer about a job"),
        (spoiled(("name",), None), "not Flink's answer about a job"),
        (
            spoiled(("plan", "nodes"), [{"id": "v0"}]),
            "the newest answer about a job has v1 in its list of vertices only; save it again",
        ),
        (
            spoiled(("vertices",), counting_job().details()["vertices"][:3]),
            "the newest answer about a job has v3 in its plan only",
        ),
        (spoiled(("plan", "nodes", 0), {"id": "v0", "inputs": [{"id": "v3"}]}), "wait for one another"),
        (spoiled(("now",), None), "a damaged answer"),
        (spoiled(("vertices", 1, "metrics", "read-records"), "many"), "a damaged answer"),
        ({"jobs": []}, "no answer of /jobs/<id> about any job"),
    ],
)
def test_answers_of_another_kind(answer: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said):
        import_flink(saved(tmp_path, [answer]))


def _spoil_now(answer: dict[str, Any]) -> None:
    answer["now"] = "later"


def _spoil_restart(answer: dict[str, Any]) -> None:
    answer["timestamps"]["RESTARTING"] = "then"


def _no_vertices(answer: dict[str, Any]) -> None:
    answer.update(vertices=[], plan={"nodes": []})


def _no_subtasks(answer: dict[str, Any]) -> None:
    answer["vertices"][1]["parallelism"] = 0


def _endless(answer: dict[str, Any]) -> None:
    answer["vertices"][1]["metrics"]["read-records"] = float("inf")


def _endless_limit(answer: dict[str, Any]) -> None:
    answer["vertices"][1]["maxParallelism"] = float("inf")


def _endless_parallelism(answer: dict[str, Any]) -> None:
    answer["vertices"][1]["parallelism"] = float("inf")


def _too_long_a_count(answer: dict[str, Any]) -> None:
    answer["vertices"][1]["metrics"]["read-records"] = 10**400


def _too_long_a_time(answer: dict[str, Any]) -> None:
    answer["now"] = 10**400


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_spoil_now, "an answer about a job tells no time"),
        (_spoil_restart, "a damaged answer about restarts .*; save it again, or remove it"),
        (_no_vertices, "the job has no vertices"),
        (_no_subtasks, "a damaged answer about a job .*; remove it"),
        (_endless, "a damaged answer about a job .*; remove it"),
        (_endless_limit, "not Flink's answer about a job .*; save"),
        (_endless_parallelism, "a damaged answer about a job .*; remove it"),
        (_too_long_a_count, "a damaged answer about a job .*; remove it"),
        (_too_long_a_time, "an answer about a job tells no time"),
    ],
)
def test_damaged_answers_about_a_job(spoil: Any, said: str, tmp_path: Path) -> None:
    answers = counting_job().watched(3)
    for answer in answers:
        spoil(answer)
    with pytest.raises(HistoryError, match=said):
        import_flink(saved(tmp_path, answers))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"counts": {}, "latest": [1]}, "about checkpoints"),
        ({"counts": {}, "latest": {"completed": {"state_size": None}}}, "about checkpoints"),
        ({"state_size": 1, "tasks": {"v2": None}}, "about checkpoints"),
        ({"counts": {}, "latest": {"completed": {"id": float("inf")}}}, "about checkpoints"),
        ({"state_size": 1, "tasks": {"v2": {"state_size": 10**400}}}, "about checkpoints"),
        ({"schedulerStates": [5], "terminalState": "COMPLETED"}, "about restarts"),
        (
            {
                "schedulerStates": [{"state": "Restarting", "durationInMillis": 10**400}],
                "terminalState": "COMPLETED",
            },
            "about restarts",
        ),
    ],
)
def test_damaged_answers_beside_those_about_a_job(answer: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=f"a damaged answer {said} .*; save it again, or remove it"):
        import_flink(saved(tmp_path, [*counting_job().watched(3), answer]))


def test_folders_and_files_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no such folder"):
        import_flink(str(tmp_path / "missing"))
    with pytest.raises(HistoryError, match="no answer of /jobs/<id>"):
        import_flink(str(tmp_path))
    (tmp_path / "number.json").write_text("3")
    with pytest.raises(HistoryError, match="no answer of /jobs/<id>"):
        import_flink(str(tmp_path))
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    with pytest.raises(HistoryError, match="line 1 is not JSON"):
        import_flink(str(tmp_path))
    (tmp_path / "deep.jsonl").unlink()
    (tmp_path / "page.json").write_text("<html>")
    with pytest.raises(HistoryError, match="not JSON"):
        import_flink(str(tmp_path))
