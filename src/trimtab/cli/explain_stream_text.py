"""What `trimtab explain` says of a streaming job, as text and tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trimtab.cli.terminal import table_of

__all__ = ["print_stream_decision"]

MOST_CHOICES = 3
MOST_INFLUENCES = 8
COMPACT_PARTS = ("on_size", "on_limit", "on_saving")
VERTEX_HEADS = (
    "vertex", "records/s", "busy", "backpressured", "queue full", "waiting", "complete", "parallelism",
    "wanted",
)  # fmt: skip


def print_stream_decision(content: Mapping[str, Any]) -> None:
    """Print what `explain_stream` says in plain values: the job, the wish, its reasons, other rules."""
    print(
        f"Decision {content['decision']} of {content['policy']} on job {content['job']}, "
        f"{content['trace']}, seed {content['seed']}: day {content['day']}, {content['time_of_day']}."
    )
    print(f"{_latency(content)}; {_slots(content)}; {_restarts(content)}.\n")
    print(table_of(VERTEX_HEADS, [_vertex_row(one) for one in content["vertices"]]))
    print(f"\n{_wish(content['chosen'])}")
    for one in content["chosen"]["changes"]:
        if one["because"]:
            reasons = "; ".join(one["because"])
            print(f"  {one['vertex']}: {one['wanted']} wanted, {one['allowed']} allowed: {reasons}")
    if "learned" in content:
        _print_learned(content["learned"], content["vertices"])
    if "compact" in content:
        _print_compact(content["compact"])
    rows = [[one["policy"], _wish_of_rule(one)] for one in content["others"]]
    print(f"\n{table_of(['rule', 'would want, had it watched this'], rows)}")


def _latency(content: Mapping[str, Any]) -> str:
    limit = f"limit {content['limit_s']:g} s"
    if content["latency_s"] is None:
        return f"Latency unknown ({limit})"
    tail = content["latency_p95_s"]
    told = f"95th percentile {'unknown' if tail is None else f'{tail:,.2f} s'}, {limit}"
    return f"Latency {content['latency_s']:,.2f} s ({told}){', too late' if content['too_late'] else ''}"


def _slots(content: Mapping[str, Any]) -> str:
    budget = content["slot_budget"]
    return f"{content['slots']} slots" + ("" if budget is None else f" of {budget}")


def _restarts(content: Mapping[str, Any]) -> str:
    if content["rescaling"]:
        return "a restart is under way"
    if content["cooldown_s"] > 0:
        return f"no change is taken for {content['cooldown_s']:,.0f} s after a restart"
    since_s = content["since_rescale_s"]
    return "no restart yet" if since_s is None else f"last restart {since_s / 60:,.0f} min ago"


def _vertex_row(one: Mapping[str, Any]) -> list[str]:
    shares = ("busy", "backpressured", "queue_fill")
    measured = (
        [
            f"{one['records_in']:,.1f}",
            *(f"{one[share]:.0%}" for share in shares),
            f"{one['pending']:,.0f}" if one["is_source"] else "-",
            "yes",
        ]
        if one["complete"]
        else ["-"] * 5 + ["no"]
    )
    underway = one["running"] not in (None, one["parallelism"])
    now = f"{one['running']} -> {one['parallelism']}" if underway else str(one["parallelism"])
    return [one["vertex"], *measured, now, str(one["wanted"])]


def _wish(chosen: Mapping[str, Any]) -> str:
    changes = _changes(chosen)
    if not changes:
        return "It wants nothing changed."
    then = "" if chosen["rescales"] else " Nothing of it is done."
    return f"It wants {changes}.{then}"


def _wish_of_rule(opinion: Mapping[str, Any]) -> str:
    if "cannot" in opinion:
        return f"cannot tell: {opinion['cannot']}"
    changes = _changes(opinion)
    if not changes:
        return "nothing changed"
    return changes if opinion["rescales"] else f"{changes} (not allowed now)"


def _changes(opinion: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{one['vertex']} {one['from']} -> {one['wanted']}"
        for one in opinion["changes"]
        if one["from"] != one["wanted"]
    )


def _print_learned(learned: Mapping[str, Any], vertices: Sequence[Mapping[str, Any]]) -> None:
    if learned["commit"] is not None:
        print(f"\n{_commit(learned['commit'])}")
    rows = [
        [
            one["vertex"],
            _suggested(learned["suggested_by_ds2"][one["vertex"]]),
            *_choice_cells(learned["choices"][one["vertex"]]),
        ]
        for one in vertices
    ]
    heads = ["vertex", "rule suggests", "likeliest", "next", "then"]
    print(f"\n{table_of(heads, rows)}")
    if learned["commit"] is None:
        print("It takes the mean of each vertex's Gaussian, which need not be the likeliest.")
    rows = [
        [one["feature"], _signed(one["on_commit"]), _signed(one["on_choices"])]
        for one in learned["influences"][:MOST_INFLUENCES]
    ]
    print(f"\n{table_of(['what moved it', 'to commit', 'to these choices'], rows)}")
    print(_unit_of_influence(learned))
    if "looked_at" in learned:
        rows = [[name, *_look_cells(looks)] for name, looks in learned["looked_at"].items()]
        print(f"\n{table_of(['vertex', 'looked at itself, minutes ago', 'and at neighbours'], rows)}")


def _print_compact(compact: Mapping[str, Any]) -> None:
    saved, saving = compact["saved"], compact["saving"]
    down = f"down to save {saving:.0%} of all subtasks or more" if saving < 1 else "not down for now"
    change = f"save {saved:.0%}" if saved >= 0 else f"take {-saved:.0%} more"
    print(
        f"\nIt sizes vertices for {compact['aims_at']:.0%} utilisation, scales up when one is about to need "
        f"more than {compact['limit']:.0%} of its subtasks, and {down}. "
        f"Its goal would {change}: it {'commits' if compact['commits'] else 'holds'}."
    )
    rows = [
        [name, _busy(one["busy_subtasks"]), str(one["goal"]), "yes" if one["too_busy"] else "no"]
        for name, one in compact["vertices"].items()
    ]
    print(f"\n{table_of(['vertex', 'busy subtasks', 'goal', 'too busy'], rows)}")
    rows = [
        [one["fact"], f"{one['value']:+.2f}", *(_factor(one[name]) for name in COMPACT_PARTS)]
        for one in compact["influences"][:MOST_INFLUENCES]
    ]
    heads = ["what moved it", "value", "subtasks given", "scaled up earlier", "saving asked for"]
    print(f"\n{table_of(heads, rows)}")
    print("Each against the fact being 0.")


def _busy(subtasks: float | None) -> str:
    return "unknown" if subtasks is None else f"{subtasks:.1f}"


def _factor(factor: float) -> str:
    return f"{factor - 1:+.1%}"


def _commit(commit: Mapping[str, Any]) -> str:
    if not commit["possible"]:
        return "There is nothing to commit to now (a restart is too near, or no rule would act), so it holds."
    does = "would commit" if commit["head_start"] > 0 else "would hold"
    return (
        f"It commits with probability {commit['probability']:.1%} (score {commit['score']:+.2f}, of which "
        f"{commit['head_start']:+.2f} because the base rule {does}). If it does:"
    )


def _suggested(suggestion: Mapping[str, Any]) -> str:
    busy = suggestion["busy_subtasks"]
    return f"{suggestion['parallelism']} ({'unknown' if busy is None else f'{busy:.1f} busy'})"


def _choice_cells(row: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [
        f"{one['parallelism']}{f' {step}' if (step := one['step']) else ''}, {one['probability']:.1%}"
        for one in row[:MOST_CHOICES]
    ]
    return cells + ["-"] * (MOST_CHOICES - len(cells))


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _unit_of_influence(learned: Mapping[str, Any]) -> str:
    asked = "Against the feature being 0 in the whole window"
    if learned["commit"] is None:
        return f"{asked}: how much further parallelism goes in its direction, as a share of itself."
    return f"{asked}: change of log odds, +0.7 doubles the odds; choices: mean over vertices."


def _look_cells(looks: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The newest moment first; neighbours that were looked at most often first."""
    moments = ", ".join(f"{one['seconds_ago'] / 60:g}" for one in reversed(looks))
    counted = Counter(name for one in looks for name in one["neighbours"])
    told = ", ".join(f"{name} x{count}" for name, count in counted.most_common())
    return moments or "-", told or "-"
