"""Fragmentation as FGD (Weng et al., ATC'23) counts it: GPUs that lie free and that usual jobs cannot use.

For a typical task and a machine that cannot host it, all that is free there is a fragment; on one that can,
what is free on GPUs that are too small for it. The expectation over the typical tasks, by their share of what
comes, is the fragmentation of the machine; a job is best placed where it adds least.
"""

from __future__ import annotations

import math

from trimtab.gpu_scheduling.problem import NOWHERE, WHOLE, Snapshot

__all__ = ["added_fragments"]


def added_fragments(snapshot: Snapshot, job: int, machine: int) -> tuple[float, int]:
    """Expected fragments that a gang adds, and the GPU where a share adds least (else NOWHERE).

    Of several shares, the first alone is counted.
    """
    milli = snapshot.gpu_milli[job]
    if milli >= WHOLE:
        return fragments_by_task(snapshot, job, machine, NOWHERE), NOWHERE
    best, least = NOWHERE, math.inf
    first = snapshot.first_gpu[machine]
    for gpu in range(first, first + snapshot.gpus[machine]):
        free = snapshot.free_of_gpu[gpu]
        if free < milli:
            continue
        like_one_before = False
        for other in range(first, gpu):
            like_one_before = like_one_before or snapshot.free_of_gpu[other] == free
        if like_one_before:
            continue
        added = fragments_by_task(snapshot, job, machine, gpu)
        if best == NOWHERE or added < least or (added == least and free < snapshot.free_of_gpu[first + best]):
            best, least = gpu - first, added
    return least, best


def fragments_by_task(snapshot: Snapshot, job: int, machine: int, chosen: int) -> float:
    """Expected fragments that a gang adds to a machine on whole GPUs, or one share on GPU `chosen`."""
    instances = snapshot.instances[job] if chosen == NOWHERE else 1
    milli = instances * snapshot.gpu_milli[job]
    cpu_milli = instances * snapshot.cpu_milli[job]
    memory_mib = instances * snapshot.memory_mib[job]
    first = snapshot.first_gpu[machine]
    free_milli = snapshot.free_milli[machine]
    free_cpu = snapshot.free_cpu_milli[machine]
    free_memory = snapshot.free_memory_mib[machine]
    added = 0.0
    threshold, small, large, small_then, large_then = 0, 0, 0, 0, 0
    for task in range(len(snapshot.typical_share)):
        if min(snapshot.typical_gpu_milli[task], WHOLE) != threshold:
            # Tasks come by demand, so this is done once for all those of whole GPUs.
            threshold = min(snapshot.typical_gpu_milli[task], WHOLE)
            small, large = 0, 0
            for gpu in range(first, first + snapshot.gpus[machine]):
                if snapshot.free_of_gpu[gpu] < threshold:
                    small += snapshot.free_of_gpu[gpu]
                else:
                    large += 1
            small_then, large_then = small, large
            if chosen == NOWHERE:
                # Wholly free GPUs are large enough for every task: small ones stay as they are.
                large_then -= milli // WHOLE
            elif snapshot.free_of_gpu[chosen] < threshold:
                small_then -= milli
            elif snapshot.free_of_gpu[chosen] - milli < threshold:
                large_then -= 1
                small_then += snapshot.free_of_gpu[chosen] - milli
        needed = max(snapshot.typical_gpu_milli[task] // WHOLE, 1)
        cpu, memory = snapshot.typical_cpu_milli[task], snapshot.typical_memory_mib[task]
        allowed = (snapshot.typical_types[task] >> snapshot.gpu_type[machine]) & 1 == 1
        before, then = free_milli, free_milli - milli
        if allowed and large >= needed and cpu <= free_cpu and memory <= free_memory:
            before = small
            if large_then >= needed and cpu <= free_cpu - cpu_milli and memory <= free_memory - memory_mib:
                then = small_then
        added += snapshot.typical_share[task] * (then - before)
    return added
