"""What a policy may know of an environment."""

from __future__ import annotations

from trimtab.gpu_scheduling import problem
from trimtab.gpu_scheduling.problem import Snapshot
from trimtab.gpu_scheduling.simulator.compiling import compiled, inlined
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

__all__ = ["fits_on", "gpus_for_share", "look", "look_from_python"]


def look_from_python(s: State, t: Tables) -> Snapshot:
    """What may be known now. The arrays are views: valid until the next step."""
    may_hold = s.scalar[RUNNING] > 0 or s.scalar[NEXT_ARRIVAL] < len(t.jobs)
    return Snapshot(
        s.scalar[NOW],
        may_hold,
        s.scalar[UNSEEN],
        s.lists[PENDING_ROW, : s.scalar[PENDING]],
        s.lists[RUNNING_ROW, : s.scalar[RUNNING]],
        s.slots["job_id"],
        s.slots["arrival_ms"],
        s.slots["instances"],
        s.slots["gpu_milli"],
        s.slots["cpu_milli"],
        s.slots["memory_mib"],
        s.slots["allowed_types"],
        s.slots["user"],
        s.slots["group"],
        s.slots["kind"],
        s.slots["sensitivity"],
        s.slots["communication"],
        s.slots["expected_ms"],
        s.slots["started_ms"],
        s.slots["attained_ms"],
        s.slots["done_ms"],
        s.slots["since_ms"],
        s.slots["rate"],
        s.slots["preemptions"],
        s.slots["first_part"],
        s.parts["machine"],
        s.parts["instances"],
        s.parts["next_part"],
        t.machines["gpus"],
        t.machines["gpu_type"],
        t.machines["rack"],
        t.machines["speed"],
        t.machines["price"],
        s.machines["free_gpus"],
        s.machines["free_milli"],
        s.machines["free_cpu_milli"],
        s.machines["free_memory_mib"],
        s.machines["load"],
        s.machines["jobs"],
        s.machines["observed_speed"],
        s.machines["observed"],
        t.machines["first_gpu"],
        s.gpu_free,
        t.typical["gpu_milli"],
        t.typical["cpu_milli"],
        t.typical["memory_mib"],
        t.typical["allowed_types"],
        t.typical["share"],
        t.nominal,
        t.total_gpus,
        s.scalar[FREE_MILLI],
        t.contention,
        t.communication,
        t.across_racks,
        s.machines["order"],
        s.machines["score"],
        s.lists[ORDER_ROW],
        s.slots["score"],
    )


look = inlined(look_from_python)
fits_on = compiled(problem.fits_on)
gpus_for_share = compiled(problem.gpus_for_share)
