"""What a policy may know of an environment: where each field of a snapshot lies in state and tables."""

from __future__ import annotations

from typing import Any

from trimtab.gpu_scheduling.problem import Snapshot
from trimtab.gpu_scheduling.simulator.state import (
    FREE_MILLI,
    NEXT_ARRIVAL,
    NOW,
    ORDER_ROW,
    PENDING,
    PENDING_ROW,
    RUNNING,
    RUNNING_ROW,
    UNSEEN,
    State,
)
from trimtab.gpu_scheduling.simulator.tables import Tables

__all__ = ["FIELDS", "LISTS", "SCALARS", "WHOLE", "look"]

SCALARS = {"now_ms": NOW, "unseen": UNSEEN, "free_total_milli": FREE_MILLI}
"""Numbers that change."""
LISTS = {"pending": (PENDING_ROW, PENDING), "running": (RUNNING_ROW, RUNNING), "job_order": (ORDER_ROW, None)}
"""Lists of slots: which line, and the number of its entries (None: as many as slots)."""
WHOLE = {
    "free_milli": ("state", "free_milli"),
    "free_of_gpu": ("state", "gpu_free"),
    "nominal": ("tables", "nominal"),
    "total_gpus": ("tables", "total_gpus"),
    "contention": ("tables", "contention"),
    "communication_weight": ("tables", "communication"),
    "across_racks": ("tables", "across_racks"),
}
"""Arrays and numbers that are just handed on."""


def _fields(owner: str, array: str, names: str) -> dict[str, tuple[str, str, str]]:
    return {name: (owner, array, name) for name in names.split()}


FIELDS = {
    **_fields(
        "state",
        "slots",
        "job_id arrival_ms instances gpu_milli cpu_milli memory_mib allowed_types user group kind sensitivity"
        " communication expected_ms started_ms attained_ms done_ms since_ms rate preemptions first_part",
    ),
    "job_score": ("state", "slots", "score"),
    "part_machine": ("state", "parts", "machine"),
    "part_instances": ("state", "parts", "instances"),
    "next_part": ("state", "parts", "next_part"),
    **_fields(
        "state",
        "machines",
        "free_gpus free_cpu_milli free_memory_mib load jobs observed_speed observed",
    ),
    "machine_order": ("state", "machines", "order"),
    "machine_score": ("state", "machines", "score"),
    **_fields("tables", "machines", "gpus gpu_type rack speed price first_gpu"),
    "typical_gpu_milli": ("tables", "typical", "gpu_milli"),
    "typical_cpu_milli": ("tables", "typical", "cpu_milli"),
    "typical_memory_mib": ("tables", "typical", "memory_mib"),
    "typical_types": ("tables", "typical", "allowed_types"),
    "typical_share": ("tables", "typical", "share"),
}
"""Fields of records: whose, of which array, and their name there."""


def look(s: State, t: Tables) -> Snapshot:
    """What may be known now. The arrays are views: valid until the next step."""
    owners = {"state": s, "tables": t}
    seen: dict[str, Any] = {name: int(s.scalar[place]) for name, place in SCALARS.items()}
    seen |= {
        name: s.lists[line] if count is None else s.lists[line, : s.scalar[count]]
        for name, (line, count) in LISTS.items()
    }
    seen |= {name: getattr(owners[owner], array)[field] for name, (owner, array, field) in FIELDS.items()}
    seen |= {name: getattr(owners[owner], held) for name, (owner, held) in WHOLE.items()}
    return Snapshot(may_hold=bool(s.scalar[RUNNING] > 0 or s.scalar[NEXT_ARRIVAL] < len(t.jobs)), **seen)
