"""One round of decisions: offer a source, keep promises, carry them out."""

from __future__ import annotations

from trimtab.dag_scheduling.simulator.compiling import inlined, jit
from trimtab.dag_scheduling.simulator.moves import (
    enter_pool,
    leave_pool,
    move_to,
    refresh_schedulable,
    set_demand,
    start_task,
)
from trimtab.dag_scheduling.simulator.state import (
    ACTIVE,
    BUSY_EXECUTORS,
    FROM_POOL,
    FROM_STAGE,
    NO_SOURCE,
    NOWHERE,
    POOL_HEAD,
    PROMISE_FREE,
    SCHEDULABLE,
    SELECTED,
    SOURCE,
    SOURCE_EXECUTOR,
    SOURCE_JOB,
    SOURCE_KIND,
    TO_PLACE,
    State,
)
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = [
    "apply",
    "carry_out",
    "executors_taken",
    "first_promise",
    "has_choice",
    "leave_idle",
    "may_idle",
    "offer",
    "use_backup",
]


@jit
def offer(s: State, t: Tables, kind: int, source: int, executor: int) -> None:
    """Ask the policy where the executors of a source shall go.

    From a stage, all attached executors are asked for, those still at work included, unless another
    promise waits for them.
    """
    s.scalar[SOURCE_KIND] = kind
    s.scalar[SOURCE] = source
    s.scalar[SOURCE_JOB] = s.stages["slot"][source] if kind == FROM_STAGE else source
    s.scalar[SOURCE_EXECUTOR] = executor
    s.free_executors[:] = 0
    if kind == FROM_STAGE:
        for other in range(len(s.executors["attached"])):
            if s.executors["attached"][other] == source:
                s.free_executors[t.executor_class[other]] += 1
        entry = s.stages["promise_head"][source]
        while entry != NOWHERE:
            s.free_executors[s.promises["executor_class"][entry]] -= s.promises["count"][entry]
            entry = s.promises["following"][entry]
    elif kind == FROM_POOL:
        for other in range(len(s.executors["pooled"])):
            if s.executors["pooled"][other] and s.executors["located"][other] == source:
                s.free_executors[t.executor_class[other]] += 1
    else:
        s.free_executors[t.executor_class[executor]] = 1
    s.scalar[TO_PLACE] = s.free_executors.sum()


@inlined
def has_choice(s: State, t: Tables) -> bool:
    """Whether some stage may be chosen for some offered executor."""
    if s.scalar[SCHEDULABLE] == 0:
        return False
    if len(t.class_memory) == 1:
        return True
    largest = 0.0
    for executor_class in range(len(t.class_memory)):
        if s.free_executors[executor_class] > 0:
            largest = max(largest, t.class_memory[executor_class])
    return first_schedulable(s, t, largest, NOWHERE) != NOWHERE


@jit
def first_schedulable(s: State, t: Tables, memory: float, except_slot: int) -> int:
    """First schedulable stage, jobs in order of arrival, that fits into `memory`."""
    for place in range(s.scalar[ACTIVE]):
        slot = s.slots["active"][place]
        if slot != except_slot:
            first = s.slots["first_stage"][slot]
            for stage in range(first, first + s.slots["stage_count"][slot]):
                if s.stages["schedulable"][stage] and s.stages["memory"][stage] <= memory:
                    return stage
    return NOWHERE  # pyright: ignore[reportReturnType]


@jit
def executors_taken(s: State, t: Tables, stage: int, limit: int, executor_class: int) -> int:
    """How many executors an action on a stage would move; 0 when it is outside the mask."""
    if not (0 <= stage < len(s.stages) and 0 <= executor_class < len(t.class_memory)):
        return 0
    fits = s.stages["memory"][stage] <= t.class_memory[executor_class]
    if not (fits and s.stages["schedulable"][stage]):
        return 0
    slot = s.stages["slot"][stage]
    room = limit - s.slots["executors"][slot] - s.slots["incoming"][slot]
    if slot == s.scalar[SOURCE_JOB]:
        room += s.scalar[TO_PLACE]
    return max(min(s.stages["demand"][stage], s.free_executors[executor_class], room), 0)


@jit
def may_idle(s: State) -> bool:
    """Whether some executor is busy, or will be after this round."""
    return s.scalar[BUSY_EXECUTORS] + s.scalar[SELECTED] > 0


@jit
def apply(s: State, t: Tables, stage: int, limit: int, executor_class: int) -> bool:
    """Take one answer of the policy; False when it is outside the mask."""
    if stage == NOWHERE:
        if not may_idle(s):
            return False
        leave_idle(s, t)
        return True
    count = executors_taken(s, t, stage, limit, executor_class)
    if count == 0:
        return False
    promise(s, t, stage, executor_class, count)
    s.stages["selected"][stage] = True
    refresh_schedulable(s, stage)
    s.promises["chosen"][s.scalar[SELECTED]] = stage
    s.scalar[SELECTED] += 1
    s.free_executors[executor_class] -= count
    s.scalar[TO_PLACE] -= count
    if s.scalar[TO_PLACE] == 0:
        end_round(s, t)
    return True


@jit
def leave_idle(s: State, t: Tables) -> None:
    """Promise idleness to all executors of the source that have no destination, and end the round."""
    for executor_class in range(len(s.free_executors)):
        if s.free_executors[executor_class] > 0:
            promise(s, t, NOWHERE, executor_class, s.free_executors[executor_class])
            s.free_executors[executor_class] = 0
    s.scalar[TO_PLACE] = 0
    end_round(s, t)


@jit
def promise(s: State, t: Tables, stage: int, executor_class: int, count: int) -> None:
    """Append (stage, class, count) to the promises of the source."""
    entry = s.scalar[PROMISE_FREE]
    s.scalar[PROMISE_FREE] = s.promises["following"][entry]
    home = s.scalar[SOURCE_JOB]
    s.promises["target"][entry] = stage
    s.promises["executor_class"][entry] = executor_class
    s.promises["count"][entry] = count
    s.promises["source_job"][entry] = home
    s.promises["following"][entry] = NOWHERE
    from_stage = s.scalar[SOURCE_KIND] == FROM_STAGE
    head = s.stages["promise_head"][s.scalar[SOURCE]] if from_stage else s.scalar[POOL_HEAD]
    if head == NOWHERE:
        if from_stage:
            s.stages["promise_head"][s.scalar[SOURCE]] = entry
        else:
            s.scalar[POOL_HEAD] = entry
    else:
        while s.promises["following"][head] != NOWHERE:
            head = s.promises["following"][head]
        s.promises["following"][head] = entry
    if stage != NOWHERE:
        set_demand(s, t, stage, s.stages["demand"][stage] - count)
        if s.stages["slot"][stage] != home:
            s.slots["incoming"][s.stages["slot"][stage]] += count


@jit
def end_round(s: State, t: Tables) -> None:
    """Carry out the promises for the executors that are idle now; the others follow when they end."""
    for place in range(s.scalar[SELECTED]):
        stage = s.promises["chosen"][place]
        s.stages["selected"][stage] = False
        refresh_schedulable(s, stage)
    s.scalar[SELECTED] = 0
    kind = s.scalar[SOURCE_KIND]
    source = s.scalar[SOURCE]
    s.scalar[SOURCE_KIND] = NO_SOURCE
    if kind == FROM_STAGE:
        carry_out(s, t, s.scalar[SOURCE_EXECUTOR], source)
    elif kind == FROM_POOL:
        for executor in range(len(s.executors["pooled"])):
            if s.executors["pooled"][executor] and s.executors["located"][executor] == source:
                carry_out(s, t, executor, NOWHERE)
    else:
        carry_out(s, t, s.scalar[SOURCE_EXECUTOR], NOWHERE)


@inlined
def first_promise(s: State, t: Tables, source_stage: int, executor_class: int) -> int:
    """The oldest promise to executors of a class, or NOWHERE; NOWHERE as source: the offered pool."""
    entry = s.scalar[POOL_HEAD] if source_stage == NOWHERE else s.stages["promise_head"][source_stage]
    while entry != NOWHERE and s.promises["executor_class"][entry] != executor_class:
        entry = s.promises["following"][entry]
    return entry  # pyright: ignore[reportReturnType]


@jit
def release_promise(s: State, source_stage: int, entry: int) -> None:
    """Take an entry out of its list."""
    before = s.scalar[POOL_HEAD] if source_stage == NOWHERE else s.stages["promise_head"][source_stage]
    after = s.promises["following"][entry]
    if before == entry:
        if source_stage == NOWHERE:
            s.scalar[POOL_HEAD] = after
        else:
            s.stages["promise_head"][source_stage] = after
    else:
        while s.promises["following"][before] != entry:
            before = s.promises["following"][before]
        s.promises["following"][before] = after
    s.promises["count"][entry] = 0
    s.promises["following"][entry] = s.scalar[PROMISE_FREE]
    s.scalar[PROMISE_FREE] = entry


@inlined
def carry_out(s: State, t: Tables, executor: int, source_stage: int) -> None:
    """The executor is free: it follows the first promise of its source."""
    entry = first_promise(s, t, source_stage, t.executor_class[executor])
    stage = s.promises["target"][entry]
    home = s.promises["source_job"][entry]
    s.promises["count"][entry] -= 1
    if s.promises["count"][entry] == 0:
        release_promise(s, source_stage, entry)
    leave_pool(s, executor)
    slot = s.executors["located"][executor]
    if stage == NOWHERE:
        stays = slot != NOWHERE and has_unstarted(s, slot)
        enter_pool(s, t, executor, slot if stays else NOWHERE)
        return
    destination = s.stages["slot"][stage]
    set_demand(s, t, stage, s.stages["demand"][stage] + 1)
    if destination != home:
        s.slots["incoming"][destination] -= 1
    if s.stages["unstarted"][stage] == 0:
        use_backup(s, t, executor)
    elif slot != destination:
        move_to(s, t, executor, stage)
    elif s.stages["runnable"][stage]:
        start_task(s, t, executor, stage)
    else:
        enter_pool(s, t, executor, slot)


@jit
def has_unstarted(s: State, slot: int) -> bool:
    """Whether some task of the job has not begun."""
    first = s.slots["first_stage"][slot]
    for stage in range(first, first + s.slots["stage_count"][slot]):
        if s.stages["unstarted"][stage] > 0:
            return True
    return False


@jit
def use_backup(s: State, t: Tables, executor: int) -> None:
    """What the executor came for is gone; keep it busy without asking.

    First an unsaturated runnable stage of its own job, then any schedulable stage, else idle.
    """
    slot = s.executors["located"][executor]
    memory = t.class_memory[t.executor_class[executor]]
    best = NOWHERE
    if slot != NOWHERE:
        first = s.slots["first_stage"][slot]
        for stage in range(first, first + s.slots["stage_count"][slot]):
            usable = (
                s.stages["runnable"][stage]
                and s.stages["demand"][stage] > 0
                and s.stages["memory"][stage] <= memory
            )
            if usable and (
                best == NOWHERE or s.stages["runnable_since"][stage] < s.stages["runnable_since"][best]
            ):
                best = stage
        if best != NOWHERE:
            start_task(s, t, executor, best)
            return
    stage = first_schedulable(s, t, memory, slot if t.backup_stays else NOWHERE)
    if stage != NOWHERE:
        move_to(s, t, executor, stage)
    else:
        enter_pool(s, t, executor, slot)
