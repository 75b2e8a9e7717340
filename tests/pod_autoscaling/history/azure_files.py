"""Small files in the format of Azure's public function traces."""

from collections.abc import Mapping, Sequence
from pathlib import Path


def minutes_file(
    folder: Path, counts: Mapping[str, Sequence[object]], *, name: str = "invocations.d01.csv", first: int = 1
) -> Path:
    """Calls per minute; the function `a1` belongs to the app `app-a`."""
    length = len(next(iter(counts.values())))
    lines = ["HashOwner,HashApp,HashFunction,Trigger," + ",".join(str(first + n) for n in range(length))]
    lines += [f"me,app-{key[0]},{key},http," + ",".join(map(str, row)) for key, row in counts.items()]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def durations_file(
    folder: Path, rows: Mapping[str, tuple[object, int, int, int]], name: str = "durations.csv"
) -> Path:
    """Mean, number of calls, median and 99th percentile, in ms."""
    lines = ["HashOwner,HashApp,HashFunction,Average,Count,percentile_Average_50,percentile_Average_99"]
    lines += [f"me,app-{key[0]},{key}," + ",".join(map(str, row)) for key, row in rows.items()]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def calls_file(folder: Path, rows: Sequence[tuple[str, object, object]], name: str = "calls.csv") -> Path:
    """Function, end and duration of each call, in seconds."""
    lines = [
        "app,func,end_timestamp,duration",
        *(f"app-{key[0]},{key},{end},{took}" for key, end, took in rows),
    ]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path
