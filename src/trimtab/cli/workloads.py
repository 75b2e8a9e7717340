"""`trimtab workloads`: what can be put after --workload, and where more can come from."""

from __future__ import annotations

from trimtab.cli.terminal import JsonFlag, print_json, table_of

__all__ = ["workloads"]


def workloads(*, json: JsonFlag = False) -> None:
    """List the workloads, and the sources of history that `trimtab import` reads."""
    from trimtab.dag_scheduling.history import HISTORY
    from trimtab.dag_scheduling.workload.presets import PREFIX, WORKLOADS, described

    known = [(name.removeprefix(PREFIX), described(name)) for name in WORKLOADS]
    if json:
        print_json(
            {
                "workloads": [{"name": name, "description": text} for name, text in known],
                "history": list(HISTORY),
            }
        )
        return
    print(table_of(["workload", "what it is"], [list(pair) for pair in known]))
    print(f"\nYour own: trimtab import SOURCE PATH --out my.workload; sources: {', '.join(HISTORY)}")
