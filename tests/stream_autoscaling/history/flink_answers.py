"""Answers as Flink's REST interface gives them, made from rates and work per record."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_MS = 1_700_000_000_000


@dataclass
class FakeVertex:
    """One operator: what it reads and sends per second, and how busy one record makes it."""

    name: str
    inputs: Sequence[tuple[int, str]] = ()  # vertex, how records are shipped
    read: float = 0.0
    written: float = 0.0
    busy_ms: float = 1.0  # of all subtasks together, per record worked on
    parallelism: int = 1
    record_bytes: float = 100.0
    most: int = 128
    group: str | None = None


@dataclass
class FakeJob:
    """Counts up while time passes; a rescale starts all counters anew."""

    vertices: list[FakeVertex]
    name: str = "fake"
    jid: str = "a1"
    now_s: float = 0.0
    since_s: float = 0.0
    timestamps: dict[str, int] = field(default_factory=lambda: {"RUNNING": START_MS})

    def rescale(self, parallelism: Sequence[int], *, took_s: float) -> None:
        self.timestamps["RESTARTING"] = START_MS + round(1000 * self.now_s)
        self.now_s += took_s
        self.since_s = self.now_s
        self.timestamps["RUNNING"] = START_MS + round(1000 * self.now_s)
        for vertex, wanted in zip(self.vertices, parallelism, strict=True):
            vertex.parallelism = wanted

    def details(self, **changes: Any) -> dict[str, Any]:
        """The answer of /jobs/<id>, now."""
        passed = self.now_s - self.since_s
        return {
            "jid": self.jid,
            "name": self.name,
            "state": "RUNNING",
            "now": START_MS + round(1000 * self.now_s),
            "timestamps": dict(self.timestamps),
            "vertices": [self._row(n, passed) for n in range(len(self.vertices))],
            "plan": {"nodes": [self._node(n) for n in range(len(self.vertices))]},
            **changes,
        }

    def watched(self, samples: int, every_s: float = 10.0) -> list[dict[str, Any]]:
        answers = []
        for _ in range(samples):
            answers.append(self.details())
            self.now_s += every_s
        return answers

    def _row(self, number: int, passed: float) -> dict[str, Any]:
        vertex = self.vertices[number]
        worked = vertex.read if vertex.inputs else vertex.written
        busy = worked * passed * vertex.busy_ms
        metrics: Mapping[str, Any] = {
            "read-records": round(vertex.read * passed),
            "write-records": round(vertex.written * passed),
            "write-bytes": round(vertex.written * passed * vertex.record_bytes),
            "read-records-complete": True,
            "write-records-complete": True,
            "write-bytes-complete": True,
            "accumulated-busy-time": busy,
            "accumulated-idle-time": 1000 * passed * vertex.parallelism - busy,
            "accumulated-backpressured-time": 0,
        }
        row = {
            "id": f"v{number}",
            "name": vertex.name,
            "status": "RUNNING",
            "parallelism": vertex.parallelism,
            "maxParallelism": vertex.most,
            "metrics": metrics,
        }
        return row if vertex.group is None else {**row, "slotSharingGroupId": vertex.group}

    def _node(self, number: int) -> dict[str, Any]:
        inputs = [
            {"num": place, "id": f"v{parent}", "ship_strategy": ship}
            for place, (parent, ship) in enumerate(self.vertices[number].inputs)
        ]
        return {"id": f"v{number}", "inputs": inputs} if inputs else {"id": f"v{number}"}


def counting_job() -> FakeJob:
    """Source, parse (1 ms), keyed count (7 ms), sink: 100 records a second, a tenth of them results."""
    return FakeJob(
        [
            FakeVertex("source", written=100, busy_ms=0.05),
            FakeVertex("parse", [(0, "FORWARD")], read=100, written=50, busy_ms=1.0, record_bytes=40),
            FakeVertex("count", [(1, "HASH")], read=50, written=10, busy_ms=7.0, most=64),
            FakeVertex("sink", [(2, "REBALANCE")], read=10, busy_ms=0.5),
        ],
        name="counting",
    )


def checkpoints(state_bytes: int, number: int = 9) -> dict[str, Any]:
    """The answer of /jobs/<id>/checkpoints."""
    latest = {"completed": {"id": number, "state_size": state_bytes}}
    return {"counts": {"completed": number}, "latest": latest}


def checkpoint_details(by_vertex: Mapping[str, int], number: int = 9) -> dict[str, Any]:
    """The answer of /jobs/<id>/checkpoints/details/<number>."""
    tasks = {identity: {"state_size": size} for identity, size in by_vertex.items()}
    return {"id": number, "state_size": sum(by_vertex.values()), "tasks": tasks}


def rescale(*standing_ms: int, cause: str = "UPDATE_REQUIREMENT", end: str = "COMPLETED") -> dict[str, Any]:
    """One entry of /jobs/<id>/rescales/history."""
    names = ("Restarting", "WaitingForResources", "CreatingExecutionGraph")
    states = [{"state": "Executing", "durationInMillis": 60_000}]
    states += [{"state": n, "durationInMillis": ms} for n, ms in zip(names, standing_ms, strict=False)]
    return {"schedulerStates": states, "terminalState": end, "triggerCause": cause}


def saved(folder: Path, answers: Iterable[Any]) -> str:
    """A folder with a file for each answer."""
    for number, answer in enumerate(answers):
        (folder / f"answer-{number:03}.json").write_text(json.dumps(answer))
    return str(folder)
