"""Write small Spark event logs by hand, in Spark's own layout and codecs."""

from __future__ import annotations

import gzip
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cramjam
import lz4.block
import lz4.frame
import zstandard

START = 1_700_000_000_000
SQL = "org.apache.spark.sql.execution.ui."


def stage(
    stage_id: int, tasks: int, parents: tuple[int, ...] = (), *, rdd: int | None = None
) -> dict[str, Any]:
    """A stage as a job's start announces it; its output data set is by default its own."""
    output = 100 + stage_id if rdd is None else rdd
    return {
        "Stage ID": stage_id,
        "Stage Attempt ID": 0,
        "Stage Name": "collect at query.py:1",
        "Number of Tasks": tasks,
        "RDD Info": [{"RDD ID": output, "Parent IDs": [9000]}, {"RDD ID": 9000, "Parent IDs": []}],
        "Parent IDs": list(parents),
        "Details": "",
        "Accumulables": [],
    }


@dataclass
class Log:
    """Collects events; times are milliseconds after `START`. `spark` decides which fields exist."""

    spark: str = "4.0.0"
    application_id: str = "app-1"
    name: str = "etl"
    start_ms: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    _task_id: int = 0

    def __post_init__(self) -> None:
        self._add("SparkListenerLogStart", {"Spark Version": self.spark})
        self._add(
            "SparkListenerApplicationStart",
            {
                "App Name": self.name,
                "App ID": self.application_id,
                "Timestamp": START + self.start_ms,
                "User": "u",
            },
        )

    def environment(self, **properties: str) -> Log:
        named = {key.replace("__", "."): value for key, value in properties.items()}
        return self._add("SparkListenerEnvironmentUpdate", {"Spark Properties": named})

    def executor(self, name: str, *, cores: int = 1, at: int = 0) -> Log:
        about = {"Host": "localhost", "Total Cores": cores, "Log Urls": {}}
        return self._add(
            "SparkListenerExecutorAdded",
            {"Timestamp": START + at, "Executor ID": name, "Executor Info": about},
        )

    def executor_removed(self, name: str, *, at: int) -> Log:
        return self._add(
            "SparkListenerExecutorRemoved",
            {"Timestamp": START + at, "Executor ID": name, "Removed Reason": "idle"},
        )

    def sql(self, execution_id: int, *, at: int, root: int | None = None) -> Log:
        event: dict[str, Any] = {"executionId": execution_id}
        if self.spark >= "3.4":
            event["rootExecutionId"] = execution_id if root is None else root
        return self._add(SQL + "SparkListenerSQLExecutionStart", event | {"time": START + at})

    def sql_end(self, execution_id: int, *, at: int, error: str = "") -> Log:
        event: dict[str, Any] = {"executionId": execution_id, "time": START + at}
        if self.spark >= "3.4":
            event["errorMessage"] = error
        return self._add(SQL + "SparkListenerSQLExecutionEnd", event)

    def job(
        self,
        job_id: int,
        *stages: dict[str, Any],
        at: int,
        sql: int | None = None,
        root: int | None = None,
    ) -> Log:
        properties = {} if sql is None else {"spark.sql.execution.id": str(sql)}
        if root is not None:
            properties["spark.sql.execution.root.id"] = str(root)
        return self._add(
            "SparkListenerJobStart",
            {
                "Job ID": job_id,
                "Submission Time": START + at,
                "Stage Infos": list(stages),
                "Stage IDs": [about["Stage ID"] for about in stages],
                "Properties": properties,
            },
        )

    def submitted(self, stage_id: int, tasks: int, *, attempt: int = 0) -> Log:
        about = stage(stage_id, tasks) | {"Stage Attempt ID": attempt}
        return self._add("SparkListenerStageSubmitted", {"Stage Info": about, "Properties": {}})

    def job_end(self, job_id: int, *, at: int, ok: bool = True) -> Log:
        result = {"Result": "JobSucceeded" if ok else "JobFailed"}
        return self._add(
            "SparkListenerJobEnd",
            {"Job ID": job_id, "Completion Time": START + at, "Job Result": result},
        )

    def task(
        self,
        stage_id: int,
        partition: int,
        executor: str,
        launch: int,
        finish: int,
        *,
        attempt: int = 0,
        index: int | None = None,
        reason: str = "Success",
        speculative: bool = False,
        shuffle: bool = True,
    ) -> Log:
        self._task_id += 1
        about: dict[str, Any] = {
            "Task ID": self._task_id,
            "Index": partition if index is None else index,
            "Attempt": 0,
        }
        if self.spark >= "3.4":
            about["Partition ID"] = partition
        about |= {
            "Launch Time": START + launch,
            "Executor ID": executor,
            "Host": "localhost",
            "Locality": "PROCESS_LOCAL",
            "Speculative": speculative,
            "Getting Result Time": 0,
            "Finish Time": START + finish,
            "Failed": reason not in ("Success", "TaskKilled"),
            "Killed": reason == "TaskKilled",
            "Accumulables": [{"ID": 1, "Name": "duration", "Update": "3", "Value": "3"}],
        }
        return self._add(
            "SparkListenerTaskEnd",
            {
                "Stage ID": stage_id,
                "Stage Attempt ID": attempt,
                "Task Type": "ShuffleMapTask" if shuffle else "ResultTask",
                "Task End Reason": {"Reason": reason},
                "Task Info": about,
                "Task Metrics": {"Executor Run Time": finish - launch},
            },
        )

    def end(self, *, at: int = 100_000) -> Log:
        return self._add("SparkListenerApplicationEnd", {"Timestamp": START + at})

    def _add(self, name: str, fields: dict[str, Any]) -> Log:
        self.events.append({"Event": name} | fields)
        return self

    @property
    def lines(self) -> list[bytes]:
        return [json.dumps(event, separators=(",", ":")).encode() for event in self.events]

    @property
    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return path


def two_stage_log(**fields: Any) -> Log:
    """One SQL query, 2 + 1 tasks on two executors: 1000, 3000 ms (fresh), 500 ms (first wave)."""
    return (
        Log(**fields)
        .executor("1")
        .executor("2")
        .sql(0, at=1000)
        .job(0, stage(0, 2), stage(1, 1, (0,)), at=1100, sql=0)
        .task(0, 0, "1", 2000, 3000)
        .task(0, 1, "2", 2000, 5000)
        .task(1, 0, "1", 5000, 5500, shuffle=False)
        .job_end(0, at=5500)
        .sql_end(0, at=5600)
        .end()
    )


def lz4_block_stream(data: bytes, block: int = 700) -> bytes:
    """lz4-java's LZ4BlockOutputStream; a block that does not shrink is stored as it is."""
    packed = []
    for piece in (data[start : start + block] for start in range(0, len(data), block)):
        squeezed = lz4.block.compress(piece, store_size=False)
        token = 0x20 if len(squeezed) < len(piece) else 0x10
        body = squeezed if token == 0x20 else piece
        header = struct.pack("<8sBiiI", b"LZ4Block", token | 5, len(body), len(piece), 0)
        packed.append(header + body)
    return b"".join(packed) + struct.pack("<8sBiiI", b"LZ4Block", 0x15, 0, 0, 0)


def snappy_java_stream(data: bytes, block: int = 700) -> bytes:
    """snappy-java's SnappyOutputStream: one header, then length and raw block."""
    packed = [b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), block):
        body = bytes(cramjam.snappy.compress_raw(data[start : start + block]))
        packed.append(struct.pack(">i", len(body)) + body)
    return b"".join(packed)


CODECS = {
    "gz": gzip.compress,
    "lz4": lz4_block_stream,
    "lz4frame.lz4": lz4.frame.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "zst": lambda data: (
        zstandard.ZstdCompressor().compress(data[:900]) + zstandard.ZstdCompressor().compress(data[900:])
    ),
    "snappy": snappy_java_stream,
    "framed.snappy": lambda data: bytes(cramjam.snappy.compress(data)),
    "twice.snappy": lambda data: snappy_java_stream(data[:500]) + snappy_java_stream(data[500:]),
}
"""File ending → how to write it; some twice, because streams may follow one another."""
