"""The comparison table as HTML: numbers, interval bars, and a mark on the best of each column."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from trimtab.benchmark.report.content import EstimateLike, ReportTable
from trimtab.benchmark.report.section_html import policy_key
from trimtab.benchmark.report.wording import decimals, number, percent

__all__ = ["table_html"]


@dataclass(frozen=True)
class Scale:
    """A column's interval bars share one scale, so they can be compared down the column."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Sequence[EstimateLike | None], *, zero: bool = False) -> Scale:
        edges = [edge for value in values if value is not None for edge in (value.low, value.high)]
        edges += [value.value for value in values if value is not None] + [0.0] * zero
        low, high = min(edges, default=0.0), max(edges, default=1.0)
        margin = 0.05 * (high - low) or 1.0
        return cls(low - margin, high + margin)

    def place(self, value: float) -> float:
        """Percent of the bar's width."""
        return 100 * (value - self.low) / (self.high - self.low)


def table_html(table: ReportTable, policies: Sequence[str], *, key: str = "comparison") -> str:
    """The table, complete without any script; `table.js` makes its headings sort. `key` is its id."""
    with_change = any(row.change is not None for row in table.rows)
    heads = [_head("Policy", "text", "", lower_is_better=True)]
    for place, column in enumerate(table.columns):
        heads.append(_head(column.heading, "number", column.unit, lower_is_better=column.lower_is_better))
        if place == 0 and with_change:
            heads.append(
                _head(
                    f"Change against {table.reference}",
                    "number",
                    "%",
                    lower_is_better=column.lower_is_better,
                )
            )
    body = "".join(_row(table, place, policies, with_change=with_change) for place in range(len(table.rows)))
    return (
        f'<table id="{key}" class="comparison" aria-describedby="{key}-caption">'
        f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"
    )


def _head(heading: str, kind: str, unit: str, *, lower_is_better: bool) -> str:
    remarks = [unit] if unit else []
    remarks += [] if lower_is_better else ["higher is better"]
    shown_unit = f' <span class="unit">{escape(", ".join(remarks))}</span>' if remarks else ""
    first = "ascending" if lower_is_better else "descending"
    return (
        f'<th scope="col" class="{kind}" data-first="{first}"><button type="button">'
        f'<span>{escape(heading)}{shown_unit}</span><span class="arrow" aria-hidden="true"></span>'
        "</button></th>"
    )


def _row(table: ReportTable, place: int, policies: Sequence[str], *, with_change: bool) -> str:
    row = table.rows[place]
    # Under the name, where it stays in sight however far the numbers are scrolled.
    verdict = f'<span class="verdict">{escape(row.verdict)}</span>' if row.verdict else ""
    cells = [
        f'<th scope="row" data-value="{escape(row.policy)}">'
        f'<span class="policy">{policy_key(policies.index(row.policy))}'
        f"<span>{_foldable(row.policy)}{verdict}</span></span></th>"
    ]
    for at, column in enumerate(table.columns):
        values = [other.values[at] for other in table.rows]
        scale, told = Scale.around(values), _teller(values, column.unit)
        # Rows that show the same number share the mark; where all do, none is better than another.
        top, own = table.best(at), row.values[at]
        leader = None if top is None else values[top]
        best = own is not None and leader is not None and told(own.value) == told(leader.value)
        best = best and len({None if value is None else told(value.value) for value in values}) > 1
        cells.append(_cell(row.values[at], scale, told, best=best))
        if at == 0 and with_change:
            changes = Scale.around([other.change for other in table.rows], zero=True)
            cells.append(_change_cell(row.change, changes, row.policy == table.reference))
    return f"<tr>{''.join(cells)}</tr>"


def _foldable(policy: str) -> str:
    """A name that may go on in the next line after each of its parts.

    >>> _foldable("las+fast:min_run_s=60")
    'las+<wbr>fast:<wbr>min_run_s=60'
    """
    return re.sub(r"([+:,/])", r"\1<wbr>", escape(policy))


def _teller(values: Sequence[EstimateLike | None], unit: str) -> Callable[[float], str]:
    """Numbers of a column with the same number of decimals, so that they can be compared by eye.

    Where they differ by more than a hundred times, each has its own: 0.48 s beside 9,501 s is not 0.
    """
    factor = 100 if unit == "%" else 1
    sizes = sorted(abs(value.value) * factor for value in values if value is not None)
    some = [size for size in sizes if size > 0]
    wide = bool(some) and some[-1] > 100 * some[0]
    digits = None if wide else decimals(sizes[len(sizes) // 2] if sizes else 0.0)
    return lambda value: number(value, unit, with_unit=False, digits=digits)


def _change_cell(change: EstimateLike | None, scale: Scale, is_reference: bool) -> str:
    if change is None:
        text = "reference" if is_reference else "not measured"
        value = ' data-value="0"' if is_reference else ""
        return f'<td class="number"{value}><span class="none">{text}</span></td>'
    return _cell(change, scale, lambda v: percent(v, signed=True).removesuffix(" %"), zero=True)


def _cell(
    value: EstimateLike | None,
    scale: Scale,
    told: Callable[[float], str],
    *,
    best: bool = False,
    zero: bool = False,
) -> str:
    if value is None:
        return '<td class="number"><span class="none">not measured</span></td>'
    mark = '<span class="best-mark">best</span>' if best else ""
    interval = f"95 % interval {told(value.low)} to {told(value.high)}"
    zero_line = f'<i class="zero" style="left:{scale.place(0):.2f}%"></i>' if zero else ""
    left, width = scale.place(value.low), scale.place(value.high) - scale.place(value.low)
    return (
        f'<td class="{"number best" if best else "number"}" data-value="{float(value.value)!r}" '
        f'title="{interval}">'
        f'<span class="figure">{mark}{told(value.value)}</span>'
        f'<span class="bar" role="img" aria-label="{interval}">{zero_line}'
        f'<i class="span" style="left:{left:.2f}%;width:{width:.2f}%"></i>'
        f'<i class="dot" style="left:{scale.place(value.value):.2f}%"></i></span></td>'
    )
