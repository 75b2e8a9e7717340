"""Record our own TPC-H profile: generate the data, run every query as its own Spark application.

The working folder holds everything and makes a broken-off recording continue where it stopped:

    data/sf0.1/lineitem/*.parquet     the tables, one folder per scale factor
    logs/q05_sf0.1_executors2.json    one Spark event log per finished application
    answers/q05_sf0.1_executors2.json the rows the query returned
    consoles/...                      what Spark printed; the last lines explain a failure
    recording.json                    versions, settings and cores, written once at the start
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from trimtab.dag_scheduling.recording.errors import RecordingError
from trimtab.dag_scheduling.recording.tpch_queries import QUERY_NUMBERS, query_text

__all__ = ["Application", "plan_applications", "record_tpch"]

# One file is one scan task (see SPARK_SETTINGS), so this fixes how many scan tasks there are:
# lineitem has 8 files of 2.6 MB at scale factor 0.1 and 32 files of 2.8 MB at 0.4.
FILES_PER_SCALE_FACTOR: dict[str, float] = {
    "lineitem": 80,
    "orders": 40,
    "partsupp": 30,
    "customer": 20,
    "part": 20,
    "supplier": 2.5,
    "nation": 0,
    "region": 0,
}

# On two cores the optimising compiler and the parallel collector of three or more JVMs would
# compete with the tasks; these runs are too short to win that time back.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

SPARK_SETTINGS: dict[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    # Both would cut one query into many small jobs and choose the plan while it runs.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "16",
    # A partition is never larger than the cost of opening one more file, so no two files share a
    # task and the number of scan tasks does not depend on the number of executors.
    "spark.sql.files.maxPartitionBytes": "4194304",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1024m",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK_COMPILER,
    "spark.executor.extraJavaOptions": QUICK_COMPILER,
    # The query waits until every executor is registered: no executor joins in the middle.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.locality.wait": "0s",
    "spark.network.timeout": "800s",
    "spark.executor.heartbeatInterval": "60s",
}

APPLICATION_LIMIT_S = 1200


@dataclass(frozen=True)
class Application:
    """One run of one query: the unit that is recorded, skipped when done, and named in files."""

    query: int
    scale_factor: float
    executors: int

    @property
    def name(self) -> str:
        """File stem that says what was run.

        >>> Application(query=5, scale_factor=0.1, executors=2).name
        'q05_sf0.1_executors2'
        """
        return f"q{self.query:02d}_sf{self.scale_factor:g}_executors{self.executors}"


def plan_applications(
    *, scale_factors: Sequence[float], executors: Sequence[int], queries: Sequence[int]
) -> list[Application]:
    """Order the runs so that a recording broken off anywhere is still of use.

    All queries once at the first size before anything is repeated; a further size is run at the
    first executor count only, because growth with size needs one count, not all.
    """
    if not scale_factors or not executors or not queries:
        raise RecordingError("nothing to record: give at least one scale factor, executor count and query")
    first, *further = scale_factors
    points = [(first, count) for count in executors] + [(size, executors[0]) for size in further]
    return [
        Application(query=query, scale_factor=size, executors=count)
        for size, count in points
        for query in queries
    ]


def record_tpch(
    folder: Path,
    *,
    scale_factors: Sequence[float],
    executors: Sequence[int],
    queries: Sequence[int] = QUERY_NUMBERS,
    report: Callable[[str], None] = lambda line: None,
) -> Path:
    """Run the whole recording and return the folder with the event logs.

    Finished applications are skipped, so a recording that broke off continues when called again.
    """
    generator = find_tools()
    applications = plan_applications(scale_factors=scale_factors, executors=executors, queries=queries)
    logs = folder / "logs"
    for part in (logs, folder / "answers", folder / "consoles"):
        part.mkdir(parents=True, exist_ok=True)
    write_provenance(
        folder,
        command=f"trimtab record tpch --scale-factors {_joined(scale_factors)}"
        f" --executors {_joined(executors)}",
        generator=generator,
    )
    for scale_factor in scale_factors:
        generate_tables(folder, scale_factor, generator=generator, report=report)
    for position, application in enumerate(applications, start=1):
        place = f"{position}/{len(applications)} {application.name}"
        if (logs / f"{application.name}.json").exists():
            report(f"{place}: already recorded")
            continue
        report(f"{place}: running")
        run_application(folder, application)
    return logs


def find_tools() -> Path:
    """Refuse before anything starts if pyspark, java or the table generator is missing."""
    missing: list[str] = []
    if find_spec("pyspark") is None:
        missing.append("the Python package pyspark")
    if shutil.which("java") is None:
        missing.append("a java program of version 17 or later on the PATH")
    beside_python = str(Path(sys.executable).parent)
    generator = shutil.which("tpchgen-cli", path=beside_python) or shutil.which("tpchgen-cli")
    if generator is None:
        missing.append("the program tpchgen-cli")
    if missing or generator is None:
        raise RecordingError(
            f"recording TPC-H needs {', '.join(missing)}; install a Java runtime and, in the checkout of "
            "trimtab, pip install '.[spark]'"
        )
    return Path(generator)


def write_provenance(folder: Path, *, command: str, generator: Path) -> None:
    """Write down with what the recording is made; refuse to continue one made with other means."""
    target = folder / "recording.json"
    means = {
        "spark_version": metadata.version("pyspark"),
        "tpchgen_version": _output_of([str(generator), "--version"]).split()[-1],
        "cores": os.cpu_count(),
        "settings": SPARK_SETTINGS,
        "files_per_scale_factor": FILES_PER_SCALE_FACTOR,
    }
    if target.exists():
        earlier = json.loads(target.read_text())
        changed = [key for key, value in means.items() if earlier.get(key) != value]
        if changed:
            raise RecordingError(
                f"{folder} was begun with other {', '.join(changed)}; record into a new folder"
            )
    target.write_text(json.dumps({"command": command, **means}, indent=1))


def generate_tables(
    folder: Path, scale_factor: float, *, generator: Path, report: Callable[[str], None]
) -> None:
    """Generate the tables of one size; the folder gets its name only when all are complete."""
    target = tables_folder(folder, scale_factor)
    if target.exists():
        return
    report(f"generating TPC-H tables at scale factor {scale_factor:g}")
    unfinished = target.with_name(target.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for table, files_per_scale_factor in FILES_PER_SCALE_FACTOR.items():
        files = max(1, round(files_per_scale_factor * scale_factor))
        _output_of(
            [str(generator), "parquet", "--scale-factor", f"{scale_factor:g}", "--tables", table]
            + ["--parts", str(files), "--output-dir", str(unfinished), "--quiet"]
        )
    unfinished.rename(target)


def tables_folder(folder: Path, scale_factor: float) -> Path:
    """Where the tables of one size lie."""
    return folder / "data" / f"sf{scale_factor:g}"


def run_application(folder: Path, application: Application) -> None:
    """Run one query in its own process; its log gets its final name only when the run succeeded."""
    running = folder / "running" / application.name
    shutil.rmtree(running, ignore_errors=True)
    running.mkdir(parents=True)
    answer = folder / "answers" / f"{application.name}.json"
    request = running / "request.json"
    request.write_text(json.dumps(application_request(folder, application, answer=answer)))
    console = folder / "consoles" / f"{application.name}.txt"
    program = Path(__file__).with_name("spark_application.py")
    # -P: the program's own folder is not searched, so no module there can hide a standard one.
    command = [sys.executable, "-P", str(program), str(request)]
    code = _run_to_end(command, working_folder=running, console=console)
    if code is None:
        raise RecordingError(
            f"{application.name} ran longer than {APPLICATION_LIMIT_S} s; see {console}, "
            "use a smaller scale factor or a less busy machine"
        )
    log = next(_finished_logs(running), None)
    if code != 0 or log is None:
        raise RecordingError(
            f"{application.name} failed; see {console}, then start again: finished runs are kept"
        )
    log.rename(folder / "logs" / f"{application.name}.json")
    shutil.rmtree(running)


def application_request(folder: Path, application: Application, *, answer: Path) -> dict[str, object]:
    """Everything the little program needs to know, as plain JSON."""
    running = (folder / "running" / application.name).resolve()
    return {
        "name": application.name,
        # local-cluster starts one separate JVM per executor: n workers, one core, 1024 MB each.
        "master": f"local-cluster[{application.executors},1,1024]",
        "settings": {
            **SPARK_SETTINGS,
            "spark.cores.max": str(application.executors),
            "spark.eventLog.dir": running.as_uri(),
            "spark.sql.warehouse.dir": (running / "warehouse").as_uri(),
        },
        "data_folder": str(tables_folder(folder, application.scale_factor).resolve()),
        "sql": query_text(application.query, scale_factor=application.scale_factor),
        "answer_path": str(answer.resolve()),
    }


def _joined(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _finished_logs(running: Path) -> Iterator[Path]:
    return (path for path in running.glob("app-*") if path.suffix != ".inprogress")


def _run_to_end(command: list[str], *, working_folder: Path, console: Path) -> int | None:
    """Return the exit code, or None after the time limit; leave no Spark process behind."""
    with console.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=working_folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Driver and executors are grandchildren: a group of their own lets us end them all.
            start_new_session=True,
        )
        try:
            return process.wait(timeout=APPLICATION_LIMIT_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _output_of(command: list[str]) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        last_line = (finished.stderr.strip().splitlines() or ["no message"])[-1]
        raise RecordingError(f"{shlex.join(command)} failed: {last_line}")
    return finished.stdout
