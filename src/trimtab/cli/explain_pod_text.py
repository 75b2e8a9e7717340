"""What `trimtab explain` says of a service, as text and tables for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trimtab.cli.terminal import table_of

__all__ = ["print_pod_decision"]

MOST_INFLUENCES = 8


def print_pod_decision(content: Mapping[str, Any]) -> None:
    """Print what `explain_pod` says in plain values: the service, the wish, its reasons, and what came."""
    print(
        f"Decision {content['decision']} of {content['policy']} on service {content['service']}, "
        f"{content['trace']}, seed {content['seed']}: day {content['day']}, {content['time_of_day']}."
    )
    print(f"{_state(content)}.\n")
    print(_metrics(content))
    chosen = content["chosen"]
    print(f"\n{_wish(chosen, content['size'])}")
    for reason in chosen["because"]:
        print(f"  {_size(chosen['allowed'])} is done: {reason}")
    if "learned" in content:
        _print_learned(content["learned"])
    else:
        print(f"{content['policy']} is no network, so there are no answers to take apart.")
    _print_afterwards(content)


def _state(content: Mapping[str, Any]) -> str:
    size = content["size"]
    told = [f"It has {_size(size)}", f"{content['ready']} of {size['replicas']:.0f} pods are ready"]
    if content["resizing"]:
        told.append("a resize is under way")
    if content["infeasible"]:
        told.append("no node can hold pods of this size")
    return "; ".join(told)


def _size(size: Mapping[str, float]) -> str:
    return f"{size['replicas']:.0f} x {size['cpu']:.2f} cores, {size['memory']:,.0f} MiB"


# --- what metrics said -----------------------------------------------------------------------------


def _metrics(content: Mapping[str, Any]) -> str:
    last, lately = content["metrics"], content["metrics_mean"]
    heads = ["metrics", "last interval", f"mean of {content['mean_of_s'] / 60:g} min", ""]
    limit, budget = 1000 * content["limit_s"], 100 * content["budget"]
    rows: list[tuple[str, str, Callable[[float], str], str]] = [
        ("requests/s", "rate", _plain, ""),
        ("late", "late", _share, f"budget {budget:g} %"),
        ("failed", "failed", _share, ""),
        ("99th percentile of latency", "latency_p99_s", _milliseconds, f"limit {limit:,.0f} ms"),
        ("median latency", "latency_p50_s", _milliseconds, ""),
        ("requests inside", "in_flight", _plain, ""),
        ("cores used by all pods", "cpu", _plain, _held(last, "ready", "cpu_limit", "{:.2f} are ready")),
        ("throttled", "throttled", _share, ""),
        (
            "memory of the largest pod, MiB",
            "memory",
            _plain,
            _held(last, None, "memory_limit", "{:,.0f} are the limit"),
        ),
        ("pods that ran out of memory", "kills", _plain, ""),
    ]
    return table_of(
        heads,
        [
            [label, _cell(last[name], write), _cell(lately[name], write), note]
            for label, name, write, note in rows
        ],
    )


def _cell(value: float | None, write: Callable[[float], str]) -> str:
    return "unknown" if value is None else write(value)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


def _share(value: float) -> str:
    return f"{100 * value:.2f} %"


def _milliseconds(value: float) -> str:
    return f"{1000 * value:,.0f} ms"


def _held(last: Mapping[str, float | None], count: str | None, limit: str, words: str) -> str:
    """What there is of something, where metrics tell."""
    each, pods = last[limit], 1.0 if count is None else last[count]
    return "" if each is None or pods is None else words.format(pods * each)


# --- what was decided, and why ---------------------------------------------------------------------


def _wish(chosen: Mapping[str, Any], size: Mapping[str, float]) -> str:
    if chosen["wanted"] == size:
        return "It wants nothing changed."
    done = "" if chosen["changes"] else " Nothing of it is done."
    return f"It wants {_size(chosen['wanted'])}.{done}"


def _print_learned(learned: Mapping[str, Any]) -> None:
    rows = [[one["name"], f"{one['answer']:+.2f}", one["means"]] for one in learned["answer"]]
    print(f"\n{table_of(['part of the answer', 'number', 'means'], rows)}")
    around = learned["around"]
    print(f"The rule that learning began from, {around['rule']}, wants {_size(around)}.")
    _print_influences(learned)
    if "profile" in learned:
        rows = [
            [one["what"], f"{one['seems']:+.2f}", f"{one['truly']:+.2f}", one["in_units"]]
            for one in learned["profile"]
        ]
        print(f"\n{table_of(['what the service is like', 'it believes', 'truth', 'which is'], rows)}")
        print("0 is what services in training usually are; +1 and -1 are a good deal more and less.")


def _print_influences(learned: Mapping[str, Any]) -> None:
    facts = {one["feature"]: one for one in learned["features"]}
    rows: list[Sequence[str]] = []
    for one in learned["influences"][:MOST_INFLUENCES]:
        fact = facts.get(one["feature"])
        seen = ["-", "-", ""] if fact is None else [f"{fact['value']:+.2f}", f"{fact['usual']:+.2f}"]
        seen = seen if fact is None else [*seen, fact["behind"]]
        moved = [f"{value:+.3f}" for value in one["moved"].values()]
        rows.append([one["feature"], *seen, *moved, "-" if one["cores"] is None else f"{one['cores']:+.2f}"])
    parts = [one["name"] for one in learned["answer"]]
    print(f"\n{table_of(['what moved it', 'is', 'usually', 'from', *parts, 'cores'], rows)}")
    print("The answer less the one to what is usual in this episode (its median), one number at a time.")


# --- what came of it -------------------------------------------------------------------------------


def _print_afterwards(content: Mapping[str, Any]) -> None:
    spans = [one["minutes"] for one in content["afterwards"]]
    heads = ["policy", "wants", *(f"late, {minutes:g} min" for minutes in spans), "cores", "GiB"]
    rows = [_row(one["policy"], one["wanted"], one["afterwards"]) for one in content["others"]]
    own = _row(content["policy"], content["chosen"]["wanted"], content["afterwards"])
    print(f"\n{table_of(heads, [own, *rows])}")
    print(
        "What came of it: late requests in the minutes that followed, and the cores and memory held in "
        f"{spans[-1]:g} min. Rules watched so far, then went on from here in copies of the service."
    )


def _row(policy: str, wanted: Mapping[str, float], spans: Sequence[Mapping[str, Any]]) -> list[str]:
    late = [_cell(one["late_share"], _share) for one in spans]
    return [policy, _size(wanted), *late, f"{spans[-1]['cores']:.2f}", f"{spans[-1]['memory_gib']:.2f}"]
