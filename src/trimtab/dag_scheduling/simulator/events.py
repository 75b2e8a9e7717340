"""The event loop: what happens between two decisions.

Three kinds of events: a task ends, an executor arrives at a job, a job arrives. Whenever executors
become free, they are offered to the policy; its answers are kept as *promises* from the source to
stages, and carried out once every executor of the source has a destination (`rounds.py`).

The rules are those of Decima's simulator (SIGCOMM'19), with corrections that can be switched off
(`cluster.CORRECTIONS`); docs/dag-scheduling.md explains each and its effect.
"""

from __future__ import annotations

from trimtab.dag_scheduling.simulator.compiling import inlined, jit, merged
from trimtab.dag_scheduling.simulator.draws import luck_of
from trimtab.dag_scheduling.simulator.moves import (
    NO_EVENT,
    ORDER_BITS,
    arrive_at_job,
    begin_task,
    clear_event,
    enter_pool,
    refresh_schedulable,
    start_task,
)
from trimtab.dag_scheduling.simulator.rounds import (
    carry_out,
    first_promise,
    has_choice,
    leave_idle,
    offer,
    release_promise,
    use_backup,
)
from trimtab.dag_scheduling.simulator.state import (
    ACTIVE,
    COST,
    COST_SINCE,
    DECISIONS,
    DONE,
    EVENTS,
    FROM_POOL,
    FROM_STAGE,
    LAST_RESORT,
    LATER_WAVE,
    LOOSE,
    NEXT_ARRIVAL,
    NO_SOURCE,
    NOT_MOVING,
    NOW,
    NOWHERE,
    OBSERVED,
    OBSERVED_MS,
    POOL,
    POOL_HEAD,
    REOFFER,
    REOFFER_SKIP,
    SEED,
    SOURCE_KIND,
    TIME_LIMIT,
    State,
)
from trimtab.dag_scheduling.simulator.tables import Tables

__all__ = ["DECIDE", "FINISHED", "NEED_SLOTS", "STUCK", "TRUNCATED", "advance", "reset"]

DECIDE, FINISHED, TRUNCATED, NEED_SLOTS, STUCK = 0, 1, 2, 3, 4
NO_MOMENT = NO_EVENT >> ORDER_BITS
FIRST_GUESS_MS = 1000.0
"""Expected task duration before any task has been seen, when durations are learned."""


@jit
def reset(s: State, t: Tables, seed: int, time_limit_ms: int) -> None:
    """An empty cluster at the time of the first arrival; `s` holds the workload already."""
    s.scalar[:] = 0
    s.scalar[SEED] = seed
    s.scalar[TIME_LIMIT] = s.jobs["arrival_ms"][0] + time_limit_ms
    s.scalar[NOW] = s.jobs["arrival_ms"][0]
    s.scalar[COST_SINCE] = s.jobs["arrival_ms"][0]
    s.scalar[REOFFER] = NOWHERE
    s.scalar[POOL_HEAD] = NOWHERE
    s.scalar[POOL] = len(s.executors["located"])
    s.jobs["completion_ms"][:] = NOWHERE
    s.jobs["first_start_ms"][:] = NOWHERE
    s.executors["located"][:] = NOWHERE
    s.executors["attached"][:] = NOWHERE
    s.executors["target"][:] = NOT_MOVING
    s.executors["warm"][:] = False
    s.executors["pooled"][:] = True
    s.tournament["key"][:] = NO_EVENT
    leaves = len(s.tournament["key"]) // 2
    for node in range(len(s.tournament["executor"])):
        s.tournament["executor"][node] = max(node - leaves, 0)
    slots = len(s.slots["active"])
    for slot in range(slots):
        s.slots["free"][slot] = slots - 1 - slot
        s.slots["first_stage"][slot] = slot * t.stages_per_slot
        s.slots["stage_count"][slot] = 0
    s.stages["schedulable"][:] = False
    s.stages["selected"][:] = False
    s.stages["runnable"][:] = False
    s.stages["promise_head"][:] = NOWHERE
    for entry in range(len(s.promises["following"])):
        s.promises["following"][entry] = entry + 1


@jit
def advance(s: State, t: Tables) -> int:
    """Run to the next decision, or to the end; the status says which."""
    while True:
        if s.scalar[SOURCE_KIND] != NO_SOURCE:
            if has_choice(s, t):
                count_cost(s, t)
                s.scalar[DECISIONS] += 1
                if t.learned:
                    estimate_durations(s)
                return DECIDE
            leave_idle(s, t)
        elif s.scalar[DONE] == len(s.jobs):
            return FINISHED
        elif s.scalar[REOFFER] != NOWHERE:
            offer_next_pool(s, t)
        else:
            arrival = NO_MOMENT
            if s.scalar[NEXT_ARRIVAL] < len(s.jobs["arrival_ms"]):
                arrival = s.jobs["arrival_ms"][s.scalar[NEXT_ARRIVAL]]
            continue_stages(s, t, min(arrival, s.scalar[TIME_LIMIT] + 1))
            moment = min(arrival, s.tournament["key"][1] >> ORDER_BITS)
            if moment == NO_MOMENT:
                if s.scalar[LAST_RESORT]:
                    return STUCK
                # Executors of the wrong class may have ended last: offer all idle ones once more.
                s.scalar[LAST_RESORT] = 1
                offer_again(s, NOWHERE)
            elif moment > s.scalar[TIME_LIMIT]:
                s.scalar[NOW] = s.scalar[TIME_LIMIT]
                count_cost(s, t)
                return TRUNCATED
            else:
                s.scalar[NOW] = moment
                s.scalar[LAST_RESORT] = 0
                if arrival == moment:
                    if not admit_jobs(s, t):
                        return NEED_SLOTS
                else:
                    end_event(s, t, s.tournament["executor"][1])


@merged
def continue_stages(s: State, t: Tables, before_ms: int) -> None:
    """The common case in a tight loop: a task ends and its executor begins the stage's next one."""
    while True:
        moment = s.tournament["key"][1] >> ORDER_BITS
        if moment >= before_ms:
            return
        executor = s.tournament["executor"][1]
        stage = s.executors["attached"][executor]
        if stage == NOWHERE or s.stages["unstarted"][stage] == 0:
            return
        s.scalar[NOW] = moment
        s.scalar[EVENTS] += 1
        if t.learned:
            learn_duration(s, executor, stage)
        begin_task(s, t, executor, stage, LATER_WAVE)


@merged
def end_event(s: State, t: Tables, executor: int) -> None:
    """An executor's pending event has come: it arrives at a job, or it ends a stage's last tasks."""
    s.scalar[EVENTS] += 1
    clear_event(s, executor)
    if s.executors["target"][executor] == NOT_MOVING:
        end_task(s, t, executor)
        return
    stage = arrive_at_job(s, t, executor)
    if stage == NOWHERE or s.stages["unstarted"][stage] == 0:
        use_backup(s, t, executor)
    elif s.stages["runnable"][stage]:
        start_task(s, t, executor, stage)
    else:
        enter_pool(s, t, executor, s.executors["located"][executor])


@merged
def end_task(s: State, t: Tables, executor: int) -> None:
    """A task ended and its stage has no task left to begin."""
    stage = s.executors["attached"][executor]
    slot = s.stages["slot"][stage]
    if t.learned:
        learn_duration(s, executor, stage)
    s.stages["running"][stage] -= 1
    opened = s.stages["running"][stage] == 0 and finish_stage(s, t, slot, stage)
    promised = first_promise(s, t, stage, t.executor_class[executor]) != NOWHERE
    if promised:
        carry_out(s, t, executor, stage)
    elif opened:
        enter_pool(s, t, executor, slot)
    if opened:
        if s.slots["pool"][slot] > 0:
            offer(s, t, FROM_POOL, slot, NOWHERE)
        if t.offer_idle:
            offer_again(s, slot)
    job_done = s.slots["stages_left"][slot] == 0
    if not promised and not opened:
        if not job_done:
            offer(s, t, FROM_STAGE, stage, executor)
        elif not t.offer_idle:
            offer(s, t, LOOSE, NOWHERE, executor)
    if job_done:
        remove_job(s, t, slot)
        if t.offer_idle:
            if not promised:
                enter_pool(s, t, executor, NOWHERE)
            offer_again(s, NOWHERE)


@merged
def finish_stage(s: State, t: Tables, slot: int, stage: int) -> bool:
    """Count the stage as finished; True when a child became runnable."""
    s.slots["stages_left"][slot] -= 1
    opened = False
    row = s.stages["row"][stage]
    for place in range(t.child_offset[row], t.child_offset[row + 1]):
        child = s.slots["first_stage"][slot] + t.child[place]
        s.stages["unfinished_parents"][child] -= 1
        if s.stages["unfinished_parents"][child] == 0:
            make_runnable(s, slot, child)
            opened = True
    return opened


@inlined
def make_runnable(s: State, slot: int, stage: int) -> None:
    s.stages["runnable"][stage] = True
    s.stages["runnable_since"][stage] = s.slots["runnable_rank"][slot]
    s.slots["runnable_rank"][slot] += 1


@inlined
def offer_again(s: State, skip: int) -> None:
    """Offer all idle executors, the pool of one job (`skip`) excepted.

    Without this correction the executors of a finished job wait for the next arrival, and those idle at
    one job never see the work of another.
    """
    s.scalar[REOFFER] = 0
    s.scalar[REOFFER_SKIP] = skip


@merged
def offer_next_pool(s: State, t: Tables) -> None:
    """Offer the next pool that holds somebody: the cluster's first, then the jobs' in order of arrival."""
    place = s.scalar[REOFFER]
    while place <= s.scalar[ACTIVE]:
        slot = s.slots["active"][place - 1] if place > 0 else NOWHERE
        waiting = s.slots["pool"][slot] if place > 0 else s.scalar[POOL]
        place += 1
        if waiting > 0 and (slot == NOWHERE or slot != s.scalar[REOFFER_SKIP]):
            offer(s, t, FROM_POOL, slot, NOWHERE)
            if has_choice(s, t):
                s.scalar[REOFFER] = place
                return
            s.scalar[SOURCE_KIND] = NO_SOURCE
    s.scalar[REOFFER] = NOWHERE


@merged
def admit_jobs(s: State, t: Tables) -> bool:
    """Admit every job that arrives now and offer the idle executors; False when slots run out."""
    count_cost(s, t)
    while (
        s.scalar[NEXT_ARRIVAL] < len(s.jobs["arrival_ms"])
        and s.jobs["arrival_ms"][s.scalar[NEXT_ARRIVAL]] == s.scalar[NOW]
    ):
        if s.scalar[ACTIVE] == len(s.slots["active"]):
            return False
        admit_job(s, t, s.scalar[NEXT_ARRIVAL])
        s.scalar[NEXT_ARRIVAL] += 1
        s.scalar[EVENTS] += 1
    if t.offer_idle:
        offer_again(s, NOWHERE)
    elif s.scalar[POOL] > 0:
        offer(s, t, FROM_POOL, NOWHERE, NOWHERE)
    return True


@merged
def admit_job(s: State, t: Tables, job: int) -> None:
    slot = s.slots["free"][len(s.slots["active"]) - s.scalar[ACTIVE] - 1]
    s.slots["active"][s.scalar[ACTIVE]] = slot
    s.scalar[ACTIVE] += 1
    rows = t.stage_offset[s.jobs["template"][job]]
    count = t.stage_offset[s.jobs["template"][job] + 1] - rows
    s.slots["job_id"][slot] = job
    s.slots["arrival_ms"][slot] = s.scalar[NOW]
    s.slots["stage_count"][slot] = count
    s.slots["executors"][slot] = 0
    s.slots["incoming"][slot] = 0
    s.slots["pool"][slot] = 0
    s.slots["stages_left"][slot] = count
    s.slots["runnable_rank"][slot] = 0
    s.slots["started"][slot] = False
    for position in range(count):
        stage = s.slots["first_stage"][slot] + position
        row = rows + position
        parents = t.rows["parents"][row]
        s.stages["slot"][stage] = slot
        s.stages["row"][stage] = row
        s.stages["tasks"][stage] = t.rows["tasks"][row]
        s.stages["unstarted"][stage] = t.rows["tasks"][row]
        s.stages["demand"][stage] = t.rows["tasks"][row]
        s.stages["running"][stage] = 0
        s.stages["unfinished_parents"][stage] = parents
        s.stages["unsaturated_parents"][stage] = parents
        s.stages["runnable"][stage] = False
        s.stages["expected_ms"][stage] = t.rows["task_ms"][row]
        s.stages["memory"][stage] = t.rows["memory"][row]
        s.stages["luck"][stage] = luck_of(s.scalar[SEED], job, position)
        s.stages["seen"][stage] = 0
        s.stages["seen_ms"][stage] = 0
        s.stages["promise_head"][stage] = NOWHERE
        refresh_schedulable(s, stage)
        if parents == 0:
            make_runnable(s, slot, stage)


@merged
def remove_job(s: State, t: Tables, slot: int) -> None:
    """The job is done: release its executors and forget whatever was on its way to it."""
    count_cost(s, t)
    s.jobs["completion_ms"][s.slots["job_id"][slot]] = s.scalar[NOW]
    s.scalar[DONE] += 1
    for executor in range(len(s.executors["located"])):
        if s.executors["located"][executor] == slot:
            s.executors["located"][executor] = NOWHERE
            s.executors["attached"][executor] = NOWHERE
            s.executors["warm"][executor] = False
            if s.executors["pooled"][executor]:
                s.scalar[POOL] += 1
        if s.executors["target"][executor] >= 0 and s.stages["slot"][s.executors["target"][executor]] == slot:
            s.executors["target"][executor] = NOWHERE
    for place in range(s.scalar[ACTIVE]):
        forget_promises(s, t, s.slots["active"][place], slot)
    place = 0
    while s.slots["active"][place] != slot:
        place += 1
    for later in range(place, s.scalar[ACTIVE] - 1):
        s.slots["active"][later] = s.slots["active"][later + 1]
    s.scalar[ACTIVE] -= 1
    s.slots["free"][len(s.slots["active"]) - s.scalar[ACTIVE] - 1] = slot


@merged
def forget_promises(s: State, t: Tables, source_slot: int, gone_slot: int) -> None:
    """Drop the promises of one job's executors to a job that is gone."""
    first = s.slots["first_stage"][source_slot]
    for stage in range(first, first + s.slots["stage_count"][source_slot]):
        entry = s.stages["promise_head"][stage]
        while entry != NOWHERE:
            following = s.promises["following"][entry]
            target = s.promises["target"][entry]
            if target != NOWHERE and s.stages["slot"][target] == gone_slot:
                release_promise(s, stage, entry)
            entry = following


@inlined
def count_cost(s: State, t: Tables) -> None:
    """Add up jobs x time (or time alone, for the makespan) until now."""
    elapsed = s.scalar[NOW] - s.scalar[COST_SINCE]
    s.scalar[COST] += elapsed if t.makespan else elapsed * s.scalar[ACTIVE]
    s.scalar[COST_SINCE] = s.scalar[NOW]


@inlined
def learn_duration(s: State, executor: int, stage: int) -> None:
    s.stages["seen"][stage] += 1
    s.stages["seen_ms"][stage] += s.executors["task_ms"][executor]
    s.scalar[OBSERVED] += 1
    s.scalar[OBSERVED_MS] += s.executors["task_ms"][executor]


@merged
def estimate_durations(s: State) -> None:
    """What a scheduler can know of durations when it starts from nothing.

    The mean of the stage's finished tasks, with the mean over all tasks so far as one more observation.
    """
    usual = FIRST_GUESS_MS
    if s.scalar[OBSERVED] > 0:
        usual = s.scalar[OBSERVED_MS] / s.scalar[OBSERVED]
    for place in range(s.scalar[ACTIVE]):
        slot = s.slots["active"][place]
        first = s.slots["first_stage"][slot]
        for stage in range(first, first + s.slots["stage_count"][slot]):
            s.stages["expected_ms"][stage] = (s.stages["seen_ms"][stage] + usual) / (
                s.stages["seen"][stage] + 1
            )
