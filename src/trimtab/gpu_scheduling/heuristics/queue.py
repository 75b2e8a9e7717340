"""Jobs by `job_score`, lowest first: a heap in `job_order`. Equal ones go by their number."""

from __future__ import annotations

from trimtab.gpu_scheduling.problem import Snapshot

__all__ = ["by_score_first", "next_by_score"]


def goes_before(snapshot: Snapshot, job: int, other: int) -> bool:
    """Whether a job has the lower score, or the same and the lower number."""
    if snapshot.job_score[job] == snapshot.job_score[other]:
        return snapshot.job_id[job] < snapshot.job_id[other]
    return snapshot.job_score[job] < snapshot.job_score[other]


def sink(snapshot: Snapshot, place: int, size: int) -> None:
    """Let the job at a place of the heap sink to where it belongs."""
    order = snapshot.job_order
    job = order[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and goes_before(snapshot, order[child + 1], order[child]):
            child += 1
        if not goes_before(snapshot, order[child], job):
            break
        order[place] = order[child]
        place = child
    order[place] = job


def by_score_first(snapshot: Snapshot, size: int) -> None:
    """Make `job_order[:size]` a heap."""
    for place in range(size // 2 - 1, -1, -1):
        sink(snapshot, place, size)


def next_by_score(snapshot: Snapshot, size: int) -> int:
    """Move the first of a heap of that size behind it, to `job_order[size - 1]`, and return it."""
    job = snapshot.job_order[0]
    snapshot.job_order[0] = snapshot.job_order[size - 1]
    sink(snapshot, 0, size - 1)
    snapshot.job_order[size - 1] = job
    return job
