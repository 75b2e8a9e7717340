"""What `trimtab explain` says of training jobs, as text and tables for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trimtab.cli.terminal import span, table_of

__all__ = ["print_gpu_decision", "readable"]

MOST_CANDIDATES = 8
MOST_MACHINES = 8
MOST_PARTS = 4
MOST_INFLUENCES = 6
MOST_ACTIONS = 6
SECOND_QUEUE = 1e15
"""Where the priorities of the second queue of `tiresias` begin."""
LEAST_MOVED = 0.0005
"""What moves a score by less is left out."""


def print_gpu_decision(content: Mapping[str, Any]) -> None:
    """Print what `explain_gpu` says in plain values: the moment, the choice, its reasons, other choices."""
    print(_moment(content))
    print(f"{_choice(content)}\n")
    if content["sentence"]:
        print(f"How it decides: {content['sentence']}\n")
    _print_candidates(content)
    if content["displaceable"] and not content["candidates"][0]["fits"]:
        _print_displaceable(content)
    if "machines" in content:
        _print_machines(content)
    for one in content.get("moved", []):
        _print_moved(content, one)
    _print_others(content)


# --- the moment and the choice ---------------------------------------------------------------------


def _moment(content: Mapping[str, Any]) -> str:
    free, waiting = content["free_gpus"], content["jobs_waiting"]
    where = ""
    if content["largest_free"] < free:
        where = f", at most {content['largest_free']:g} of them on one machine"
    return (
        f"Decision {content['decision']} of {content['policy']} on {content['workload']}, "
        f"seed {content['seed']}: after {span(content['time_s'])}, {waiting} "
        f"job{'s wait' if waiting != 1 else ' waits'} and {content['jobs_running']} "
        f"run{'s' if content['jobs_running'] == 1 else ''}; "
        f"{free:g} of {content['gpus']} GPUs are free{where}."
    )


def _choice(content: Mapping[str, Any]) -> str:
    chosen = content["chosen"]
    act = f"It {_act(chosen)}{_cost_of_spread(chosen)}.{_place_in_line(content)}"
    said = [f"{_held(content)}{_nearest(content)}" if chosen["verb"] == "hold" else act]
    if content["then"]:
        acts = [_act(one) for one in content["then"][:MOST_ACTIONS]]
        more = len(content["then"]) - len(acts)
        said.append(f"At the same moment it then {'; '.join(acts)}{f'; and {more} more' if more else ''}.")
    return "\n".join(said)


def _held(content: Mapping[str, Any]) -> str:
    fitting = [one["job"] for one in content["candidates"] if one["fits"]]
    waiting = content["jobs_waiting"]
    if not fitting:
        who = "the job that waits does not fit" if waiting == 1 else f"none of {waiting} jobs that wait fits"
        return f"It holds: {who}."
    told = ", ".join(str(job) for job in fitting[:MOST_CANDIDATES])
    return f"It holds, though {len(fitting)} of {waiting} jobs that wait would fit (job {told})."


def _nearest(content: Mapping[str, Any]) -> str:
    """Which decisions near one to hold did something."""
    last, coming = content["last_act"], content["next_act"]
    told = [f"the last was decision {last}"] if last else []
    told += [f"the next is decision {coming}"] if coming else []
    return f" Of its starts and stops, {' and '.join(told)}." if told else ""


def _act(one: Mapping[str, Any]) -> str:
    if one["verb"] == "hold":
        return "holds"
    what = f"job {one['job']} ({gpus_of(one['gpus'])})"
    if one["verb"] == "preempt":
        favoured = one["in_favour_of"]
        why = "" if favoured is None else f" to make room for job {favoured}"
        return f"stops {what}" + (" to place it anew, where it is faster" if one["moves"] else why)
    return f"starts {what} on {_places(one['machines'])}, at {one['rate']:.2f} of the reference speed"


def _places(parts: Sequence[Mapping[str, Any]]) -> str:
    if len(parts) == 1:
        return parts[0]["machine"]
    return ", ".join(f"{part['machine']} ({part['instances']})" for part in parts)


def _cost_of_spread(chosen: Mapping[str, Any]) -> str:
    """Of a gang on several machines: what the slowest of them, and what being apart does to its speed."""
    if chosen["verb"] != "start" or len(chosen["machines"]) == 1:
        return ""
    slowest, racks = chosen["slowest_machine"], chosen["racks"]
    where = f"{len(chosen['machines'])} machines in {racks} rack{'' if racks == 1 else 's'}"
    return f" ({slowest:.2f} on the slowest of them, x {chosen['rate'] / slowest:.2f} for {where})"


def _place_in_line(content: Mapping[str, Any]) -> str:
    """Where in its order the job stood that was started."""
    chosen, waiting = content["chosen"], content["candidates"]
    if chosen["verb"] != "start" or len(waiting) == 1 or content["ordered_by"] == "arrival":
        return ""
    place = [one["job"] for one in waiting].index(chosen["job"])
    if place == 0:
        return f" It is the first of {len(waiting)} by {content['ordered_by']}."
    unfit = sum(not one["fits"] for one in waiting[:place])
    why = "the one before it does not fit" if place == 1 else f"{unfit} of the {place} before it do not fit"
    said = f" It is number {place + 1} of {len(waiting)} by {content['ordered_by']}"
    return f"{said}; {why}." if unfit else f"{said}."


# --- jobs ------------------------------------------------------------------------------------------


def _print_candidates(content: Mapping[str, Any]) -> None:
    chosen, candidates = content["chosen"], content["candidates"]
    shown = _cut(candidates, chosen.get("job"), chosen.get("in_favour_of"))
    heads, rows = _job_table(content, shown, last="fits now")
    for row, one in zip(rows, shown, strict=True):
        row += [_fit(one, content["free_gpus"]), _mark(one, chosen)]
    print(table_of([*heads, ""], rows))
    if len(shown) < len(candidates):
        print(f"and {len(candidates) - len(shown)} more that wait")
    if content["ordered_by"] != "arrival":
        print(f"By {content['ordered_by']}, the lowest first.")


def _cut(candidates: Sequence[Mapping[str, Any]], *jobs: int | None) -> list[Mapping[str, Any]]:
    """The first few, and those that the decision is about."""
    return [one for place, one in enumerate(candidates) if place < MOST_CANDIDATES or one["job"] in jobs]


def _print_displaceable(content: Mapping[str, Any]) -> None:
    jobs = content["displaceable"]
    shown = _cut(jobs, content["chosen"].get("job"))
    heads, rows = _job_table(content, shown, last="runs on")
    for row, one in zip(rows, shown, strict=True):
        row += [_places(one["on"]), _mark(one, content["chosen"])]
    print("\nRunning jobs that it may stop for the first that waits, the first to go first:")
    print(table_of([*heads, ""], rows))
    if len(shown) < len(jobs):
        print(f"and {len(jobs) - len(shown)} more that run")
    if content["chosen"]["verb"] != "preempt":
        print(f"Stopping all of them would not make room for job {content['candidates'][0]['job']}.")


def _job_table(
    content: Mapping[str, Any], shown: Sequence[Mapping[str, Any]], *, last: str
) -> tuple[list[str], list[list[str]]]:
    """Columns that jobs which wait and jobs which run have in common."""
    named = any("name" in one for one in shown)
    foretold = content["information"] != "none"
    ranked = content["ordered_by"] != "arrival"
    write = "{:.3f}".format if content["ordered_by"] == "score" else _PRIORITIES.get(content["order"], number)
    heads = ["job", *(["name"] if named else []), "GPUs", "waited", "has run"]
    heads += [*(["expected"] if foretold else []), *([content["ordered_by"]] if ranked else []), last]
    rows = []
    for one in shown:
        row = [str(one["job"]), *([one["name"]] if named else []), _gang(one)]
        row += [span(one["waited_s"]), span(one["run_s"]) if one["run_s"] else "-"]
        row += [_cell(one["expected_s"], span)] if foretold else []
        row += [_cell(one["priority"], write)] if ranked else []
        rows.append(row)
    return heads, rows


def _gpu_time(gpu_seconds: float) -> str:
    return f"{span(gpu_seconds)} of a GPU"


def _queue(value: float) -> str:
    """Of two queues, and in each by arrival; the second begins so late that no arrival reaches it."""
    second = value >= SECOND_QUEUE
    return f"queue {1 + second}, came at {span((value - SECOND_QUEUE * second) / 1000)}"


_PRIORITIES: Mapping[str, Callable[[float], str]] = {
    "fifo": lambda value: f"came at {span(value / 1000)}",
    "smallest": lambda value: gpus_of(value / 1000),
    "largest": lambda value: gpus_of(-value / 1000),
    "las": lambda value: _gpu_time(value / 1000),
    "tiresias": _queue,
    "sjf": lambda value: span(value / 1000),
    "srtf": lambda value: span(value / 1000),
    "qssf": lambda value: _gpu_time(value / 1e6),
    "srsf": lambda value: _gpu_time(value / 1e6),
}
"""What the priority of an order stands for, by the name of its function; of others, the number is told."""


def _gang(one: Mapping[str, Any]) -> str:
    if one["instances"] == 1:
        return f"{one['gpus']:g}"
    return f"{one['gpus']:g} = {one['instances']} x {one['gpus'] / one['instances']:g}"


def _fit(one: Mapping[str, Any], free_gpus: float) -> str:
    if one["fits"]:
        return "yes"
    if one["gpus"] > free_gpus:
        return f"no: {free_gpus:g} free"
    if one["instances"] == 1:
        return "no: on no machine"
    return f"no: room for {one['room']} of {one['instances']} instances"


def _mark(one: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    if one["job"] == chosen.get("in_favour_of"):
        return "<- room is made for it"
    if one["job"] == chosen.get("job"):
        return "<- starts" if chosen["verb"] == "start" else "<- is stopped"
    return ""


# --- machines --------------------------------------------------------------------------------------


def _print_machines(content: Mapping[str, Any]) -> None:
    machines, chosen = content["machines"], content["chosen"]
    taken = {part["machine"]: part["instances"] for part in chosen["machines"]}
    shown = [one for place, one in enumerate(machines) if place < MOST_MACHINES or one["machine"] in taken]
    scored = machines[0]["score"] is not None
    parts = _telling_parts(machines) if scored else []
    heads = ["machine", "GPUs free", "left then", "its speed", "neighbours"]
    heads += ["score", *(f"x {part}" for part in parts)] if scored else []
    rows = []
    for one in shown:
        row = [one["machine"], f"{one['free_gpus']:g}", _left(one, taken, chosen), f"{one['speed']:.2f}"]
        row += [f"+{one['crowding']:.1%} time" if one["crowding"] else "none"]
        if scored:
            row += [f"{one['score']:.3f}", *(f"{one['parts'][part]:.3f}" for part in parts)]
        count = taken.get(one["machine"])
        mark = "" if count is None else "<- here" if len(taken) == 1 else f"<- takes {count}"
        rows.append([*row, mark])
    print(f"\n{table_of([*heads, ''], rows)}")
    told = []
    if len(shown) < len(machines):
        told.append(f"and {len(machines) - len(shown)} more with room")
    without = content["machine_count"] - len(machines)
    if without:
        told.append(f"{without} of {content['machine_count']} machines have no room for it")
    if parts:
        which = "those that tell machines apart" if len(machines) > 1 else "the strongest"
        told.append(f"the score is the product of its parts; shown are {which}")
    if told:
        text = "; ".join(told)
        print(f"{text[:1].upper()}{text[1:]}.")


def _left(one: Mapping[str, Any], taken: Mapping[str, int], chosen: Mapping[str, Any]) -> str:
    """GPUs free after the job took all it could there; on the last of several machines it needs less."""
    if one["machine"] not in taken:
        return f"{one['left_gpus']:g}"
    each = chosen["gpus"] / sum(taken.values())
    return f"{round(one['free_gpus'] - each * taken[one['machine']], 3):g}"


def _telling_parts(machines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parts that tell machines apart (of a single one, those that count), if there is room for them."""
    beside = [] if len(machines) > 1 else [1.0]

    def spread(part: str) -> float:
        values = [*(one["parts"][part] for one in machines), *beside]
        return max(values) - min(values)

    names = list(machines[0]["parts"])
    telling = sorted((name for name in names if spread(name) > LEAST_MOVED), key=spread, reverse=True)
    return [name for name in names if name in telling[:MOST_PARTS]]


# --- features --------------------------------------------------------------------------------------


def _print_moved(content: Mapping[str, Any], one: Mapping[str, Any]) -> None:
    job, chosen = one["job"], content["chosen"]
    compared = "the jobs that wait" if chosen["verb"] == "start" else "those that wait or may be stopped"
    if one["beside"] == 1:
        print(f"\nJob {job} waits alone, so there is nothing to compare its features with.")
        return
    strongest = [each for each in one["influences"] if abs(each["moved"]) >= LEAST_MOVED][:MOST_INFLUENCES]
    if not strongest:
        print(f"\nNo feature tells job {job} from the mean of {one['beside']} {compared}.")
        return
    rows = [
        [
            each["feature"],
            readable(each["feature"], each["value"]),
            readable(each["feature"], each["mean"]),
            f"{each['moved']:+.3f}",
        ]
        for each in strongest
    ]
    print(f"\n{table_of([f'what moved job {job}', 'is', 'mean', 'score'], rows)}")
    print(
        f"Its score less the one with the mean over {compared}, one feature at a time: what is below 0 "
        "brought it forward."
    )


def _seconds(value: float) -> str:
    return span(math.expm1(10 * value))


_READABLE: Mapping[str, Callable[[float], str]] = {
    "gpus": lambda value: gpus_of(2 ** (4 * value)),
    "run time": _seconds,
    "GPU time attained": lambda value: f"{_seconds(value)} of a GPU",
    "time waited": _seconds,
    "sensitivity": lambda value: f"{1 + value:.2f} x usual",
    "communication": lambda value: f"{10 * value:.1f} % lost when spread",
    "runs": lambda value: f"{value:.0%}" if 0 < value < 1 else "yes" if value else "no",
    "time since its start": _seconds,
    "rate": lambda value: f"{value:.2f}",
    "machines needed": lambda value: f"{value:.0%}" if 0 < value < 1 else "several" if value else "one",
    "rest expected": lambda value: span(math.exp(10 * value)),
    "quick rest expected": lambda value: span(math.exp(10 * value)),
}


def readable(feature: str, value: float) -> str:
    """A feature of a job in units that people use; of those unknown here, the number itself.

    >>> readable("gpus", 0.5), readable("time waited", 0.0), readable("something new", 0.25)
    ('4 GPUs', '0 s', '0.250')
    """
    return _READABLE.get(feature, lambda number: f"{number:.3f}")(value)


# --- others ----------------------------------------------------------------------------------------


def _print_others(content: Mapping[str, Any]) -> None:
    chosen = content["chosen"]
    rows = [[one["policy"], _act(one), _compared(one, chosen)] for one in content["others"]]
    print(f"\n{table_of(['rule', 'in the same situation', ''], rows)}")


def _compared(one: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    if one["verb"] != chosen["verb"] or one.get("job") != chosen.get("job"):
        return ""
    if one["verb"] == "preempt":
        return "the same" if one["in_favour_of"] == chosen["in_favour_of"] else "the same job, for another"
    return "the same" if one.get("machines") == chosen.get("machines") else "the same job, elsewhere"


# --- words -----------------------------------------------------------------------------------------


def gpus_of(count: float) -> str:
    """GPUs in words.

    >>> gpus_of(1), gpus_of(0.25)
    ('1 GPU', '0.25 GPUs')
    """
    shown = f"{count:.3g}"
    return f"{shown} GPU{'' if shown == '1' else 's'}"


def number(value: float) -> str:
    """A priority of any size, short.

    >>> number(0.51234), number(1_234_567)
    ('0.512', '1,234,567')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _cell(value: float | None, write: Callable[[float], str]) -> str:
    return "unknown" if value is None else write(value)
