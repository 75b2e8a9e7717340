"""The words of a report: numbers with units, and the result in a sentence."""

from __future__ import annotations

from trimtab.benchmark.report.content import EstimateLike, ReportColumn, ReportTable

__all__ = ["decimals", "headline", "number", "percent"]

MINUS = "\N{MINUS SIGN}"


def decimals(size: float) -> int:
    """Digits after the point that leave three or four in all."""
    return 0 if size >= 1000 else 1 if size >= 20 else 2 if size >= 1 or size == 0 else 3


def number(value: float, unit: str, *, with_unit: bool = True, digits: int | None = None) -> str:
    """Three to four significant digits, thousands apart, with the unit.

    >>> number(1234.56, "s"), number(0.8312, "%"), number(1.234, "")
    ('1,235 s', '83.1 %', '1.23')
    """
    shown = value * 100 if unit == "%" else value
    digits = decimals(abs(shown)) if digits is None else digits
    text = f"{shown:,.{digits}f}".replace("-", MINUS)
    return f"{text} {unit}" if unit and with_unit else text


def percent(share: float, *, signed: bool = False) -> str:
    """A change as people say it; below one percent with a digit more.

    >>> percent(0.1834), percent(0.004, signed=True)
    ('18 %', '+0.4 %')
    """
    digits = 0 if abs(share) >= 0.01 or share == 0 else 1
    return f"{share * 100:{'+' if signed else ''}.{digits}f} %".replace("-", MINUS)


def headline(table: ReportTable) -> str:
    """Which policy is best and by how much; says so when the intervals leave the matter open."""
    column = table.columns[0]
    place = table.best(0)
    best = None if place is None else table.rows[place].values[0]
    if place is None or best is None:
        return "Nothing was measured."
    row = table.rows[place]
    if len(table.rows) == 1:
        return f"{row.policy} has a {_inside(column.heading)} of {_with_interval(best, column)}."
    extreme = "lowest" if column.lower_is_better else "highest"
    sentence = f"{row.policy} has the {extreme} {_inside(column.heading)}: {_with_interval(best, column)}."
    if row.change is not None and table.reference not in ("", row.policy):
        return f"{sentence} {_against(row.change, table.reference)}"
    return f"{sentence} {_runner_up(table, place, best)}".rstrip()


def _runner_up(table: ReportTable, place: int, best: EstimateLike) -> str:
    rivals = [
        (abs(value.value - best.value), at, value)
        for at, row in enumerate(table.rows)
        if at != place and (value := row.values[0]) is not None
    ]
    if not rivals:
        return ""
    _, at, second = min(rivals, key=lambda rival: rival[:2])
    told = f"Next comes {table.rows[at].policy} with {_with_interval(second, table.columns[0])}."
    change = table.rows[at].change
    if change is not None and table.reference == table.rows[place].policy:
        return f"{told} {_against(change, table.reference)}"
    overlap = best.low <= second.high and second.low <= best.high
    return told + (" The two intervals overlap." if overlap and best.low < best.high else "")


def _against(change: EstimateLike, reference: str) -> str:
    """The paired change in words, never stronger than its interval."""
    if change.low == change.value == change.high == 0:
        return f"On every workload {reference} did just as well."
    if change.low <= 0 <= change.high:
        low, high = percent(change.low, signed=True), percent(change.high, signed=True)
        return (
            f"Against {reference} the change is {percent(change.value, signed=True)} "
            f"(95 % interval {low} to {high}), which may be chance."
        )
    word = "lower" if change.value < 0 else "higher"
    near, far = sorted((abs(change.low), abs(change.high)))
    return (
        f"That is {percent(abs(change.value))} {word} than {reference} on the same workloads "
        f"(95 % interval {percent(near)} to {percent(far)})."
    )


def _with_interval(value: EstimateLike, column: ReportColumn) -> str:
    if value.low == value.high:
        return number(value.value, column.unit)
    low = number(value.low, column.unit, with_unit=False)
    high = number(value.high, column.unit)
    return f"{number(value.value, column.unit)} (95 % interval {low} to {high})"


def _inside(heading: str) -> str:
    """A heading within a sentence: "Mean" loses its capital, "JCT" keeps it."""
    return heading[:1].lower() + heading[1:] if heading[1:2].islower() else heading
