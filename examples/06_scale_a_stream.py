"""From counts in a CSV and saved answers of Flink's REST interface to a picture of three autoscalers.

Both are made up here, so that the example runs anywhere: five days of counts by the minute, and a job of
four operators watched at two parallelisms. With your own:
    trimtab import csv-counts counts.csv --out my.trace
    trimtab import flink http://localhost:8081 --out my-job.json
"""

import csv
import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory

from trimtab.benchmark.compare import compare
from trimtab.benchmark.stream_autoscaling.suites import JobsSuite
from trimtab.stream_autoscaling import TraceSettings, draw_trace, load_job, make_policy, save_job, save_trace
from trimtab.stream_autoscaling import simulate as play
from trimtab.stream_autoscaling.drawing import draw_episodes
from trimtab.stream_autoscaling.history.csv_counts import import_csv_counts
from trimtab.stream_autoscaling.history.flink import import_flink

# Name, what feeds it and how, records read and written per second, milliseconds per record.
OPERATORS = (
    ("events", None, 0.0, 400.0, 0.6),
    ("parse", "FORWARD", 400.0, 400.0, 2.0),
    ("count by user", "HASH", 400.0, 40.0, 7.0),
    ("write", "REBALANCE", 40.0, 0.0, 5.0),
)
MORNING_MS = 1_700_000_000_000


def write_counts(path: Path) -> None:
    """Requests per minute: a wave a day, and a rush of a quarter of an hour every evening."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["minute", "requests"])
        for minute in range(5 * 1440):
            hour = minute / 60 % 24
            wave = 24_000 * (1 - 0.6 * math.cos(2 * math.pi * (hour - 4) / 24))
            rows.writerow([minute, round(wave * (1.8 if 20 <= hour < 20.25 else 1.0))])


def answer(parallelism: int, second: int, started_s: int) -> dict:
    """What /jobs/<id> says after so many seconds; every rescale starts the counters anew."""
    passed = second - started_s
    vertices = []
    for number, (name, _, read, written, service_ms) in enumerate(OPERATORS):
        # Four subtasks do the work of 4 to the power of 0.9: each record keeps them busy a little longer.
        busy_ms = (read or written) * passed * service_ms * parallelism**0.1
        metrics = {
            "read-records": round(read * passed), "read-records-complete": True,
            "write-records": round(written * passed), "write-records-complete": True,
            "write-bytes": round(120 * written * passed), "write-bytes-complete": True,
            "accumulated-busy-time": busy_ms, "accumulated-backpressured-time": 0,
            "accumulated-idle-time": 1000 * passed * parallelism - busy_ms,
        }  # fmt: skip
        vertices.append(
            {
                "id": f"v{number}", "name": name, "status": "RUNNING",
                "parallelism": parallelism, "maxParallelism": 64, "metrics": metrics,
            }
        )  # fmt: skip
    nodes = [
        {"id": f"v{number}"}
        if ship is None
        else {"id": f"v{number}", "inputs": [{"num": 0, "id": f"v{number - 1}", "ship_strategy": ship}]}
        for number, (_, ship, *_) in enumerate(OPERATORS)
    ]
    stamps = {"RUNNING": MORNING_MS + 1000 * started_s}
    if started_s:
        stamps["RESTARTING"] = stamps["RUNNING"] - 1200
    return {
        "jid": "a1", "name": "clicks", "state": "RUNNING", "now": MORNING_MS + 1000 * second,
        "timestamps": stamps, "vertices": vertices, "plan": {"nodes": nodes},
    }  # fmt: skip


def write_answers(folder: Path) -> None:
    """A minute with four subtasks of each operator, then a minute with eight."""
    folder.mkdir()
    for parallelism, started_s in ((4, 0), (8, 62)):
        for second in range(started_s, started_s + 60, 10):
            text = json.dumps(answer(parallelism, second, started_s))
            (folder / f"job-{second:03}.json").write_text(text)


with TemporaryDirectory() as place:
    folder = Path(place)
    write_counts(folder / "counts.csv")
    write_answers(folder / "flink")

    # 1. Import: counts become a trace, answers become a job. Both say what they assumed.
    trace, report = import_csv_counts(str(folder / "counts.csv"))
    save_trace(trace, folder / "my.trace")
    print(*report.lines(), sep="\n")
    job, report = import_flink(str(folder / "flink"))
    save_job(job, folder / "my-job.json")
    print(*report.lines(), sep="\n")
    for vertex in load_job(folder / "my-job.json").vertices:
        print(f"  {vertex.name:14} {vertex.service_ms:.2f} ms a record, p subtasks do p^{vertex.scaling:.2f}")

    # 2. Simulate one day; a trace file keeps its rates, whatever came when the job was watched.
    asked = TraceSettings(name=str(folder / "my.trace"))
    arriving = draw_trace(asked, job, seed=0, part="test")
    rules = ("hpa", "ds2:tolerance=0.3,window_s=600", "flink")
    episodes = [play(job, arriving, make_policy(name), seed=0) for name in rules]
    for episode in episodes:
        found = episode.metrics()
        print(
            f"{episode.policy:31} late {100 * found['violation_share']:5.2f} % of the day, "
            f"{found['rescales']:3.0f} restarts, {found['slot_hours']:4.0f} slot-hours"
        )

    # 3. Compare: the same unseen days and luck for all, with intervals. Lower cost is better.
    suite = JobsSuite(jobs=(str(folder / "my-job.json"),), trace=asked, seeds=4, baseline="flink")
    comparison = compare(suite, policies=rules)
    for row in comparison.results[0].rows:
        cost = row.metrics["cost"]
        print(f"{row.policy:31} cost {cost.value:.3f} ({cost.low:.3f} to {cost.high:.3f})")

    # 4. Draw that day: rates, latency, backlog, slots, and the parallelism of every operator.
    draw_episodes(episodes, folder / "day.png")
    print(f"picture: {(folder / 'day.png').stat().st_size // 1000} kB")
