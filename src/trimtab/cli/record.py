"""`trimtab record`: run TPC-H on a local Spark and keep what it did."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from trimtab.cli.targets import check_file
from trimtab.cli.terminal import JsonFlag, print_json, remark

__all__ = ["record"]


def record(
    what: Literal["tpch"],
    /,
    *,
    folder: Path = Path("tpch-recording"),
    scale_factors: str = "0.1",
    executors: str = "2",
    queries: str = "",
    out: Path | None = None,
    json: JsonFlag = False,
) -> None:
    """Record a workload on a system of your own; needs the extra `spark` and Java 17.

    Parameters
    ----------
    what:
        What to record.
    folder:
        Where tables and event logs are kept; a recording that broke off continues there.
    scale_factors:
        Input sizes in GB, separated by commas.
    executors:
        Numbers of executors, separated by commas.
    queries:
        Numbers of queries, separated by commas; all 22 if left out.
    out:
        Profile to write; FOLDER/profile.json.gz if left out.
    """
    from trimtab.dag_scheduling.recording import build_profile, record_tpch, write_profile
    from trimtab.dag_scheduling.recording.tpch_queries import QUERY_NUMBERS

    target = out or folder / "profile.json.gz"
    check_file(target, makes_folders=True)
    logs = record_tpch(
        folder,
        scale_factors=_numbers(scale_factors, "scale-factors", smallest=0.001),
        executors=_whole_numbers(executors, "executors"),
        queries=_whole_numbers(queries, "queries") or QUERY_NUMBERS,
        report=remark,
    )
    profile = build_profile(folder, report=remark)
    write_profile(profile, target)
    if json:
        print_json({"what": what, "logs": str(logs), "profile": str(target), "jobs": len(profile["jobs"])})
        return
    print(f"{target}: {len(profile['jobs'])} jobs; event logs in {logs}")
    print(f"next: trimtab import wave-profile {shlex.quote(str(target))} --out {what}.workload")


def _whole_numbers(text: str, flag: str) -> list[int]:
    from trimtab.core.errors import SettingsError

    numbers = _numbers(text, flag, smallest=1)
    broken = next((number for number in numbers if number != int(number)), None)
    if broken is not None:
        raise SettingsError(f"--{flag} {text}: {broken:g} is not a whole number; write --{flag} 1,2,4, say")
    return [int(number) for number in numbers]


def _numbers(text: str, flag: str, *, smallest: float) -> list[float]:
    from trimtab.core.errors import SettingsError

    numbers: list[float] = []
    for part in text.split(",") if text else ():
        try:
            number = float(part)
        except ValueError:
            number = float("nan")
        if not smallest <= number < 1e6:
            raise SettingsError(
                f"--{flag} {text}: {part.strip()!r} is not a number of at least {smallest:g}; "
                f"write for example --{flag} 1,2,4"
            )
        numbers.append(number)
    return numbers
