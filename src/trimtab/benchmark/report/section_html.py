"""Frames of the charts as HTML: headings, legends, empty drawing areas with their descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from trimtab.benchmark.report.content import CurvesSection, GanttPanel, GanttSection, Section
from trimtab.benchmark.report.wording import number
from trimtab.core.colours import POLICY_COLOURS, POLICY_DASHES, job_colours

__all__ = ["policy_key", "section_html"]

MS = {"s": 1000, "min": 60_000}
MOST_JOB_BUTTONS = 300  # more would be a wall of buttons; further jobs are picked in the chart


def policy_key(place: int) -> str:
    """A short piece of the policy's line, so that colour is never the only cue."""
    dashes = " ".join(f"{2 * length:g}" for length in POLICY_DASHES[place % len(POLICY_DASHES)])
    colour = f"var(--policy-{place % len(POLICY_COLOURS)})"
    return (
        '<svg class="key" viewBox="0 0 26 10" aria-hidden="true"><path d="M1 5H25" '
        f'style="stroke:{colour}" stroke-dasharray="{dashes}"/></svg>'
    )


def section_html(section: Section, place: int, policies: Sequence[str]) -> str:
    """One card of the page; `place` ties it to its numbers in the embedded data."""
    inner = (
        _curves(section, place, policies)
        if isinstance(section, CurvesSection)
        else _gantt(section, place, policies)
    )
    kind = "curves" if isinstance(section, CurvesSection) else "gantt"
    return (
        f'<section class="card {kind}" id="{escape(section.key)}" '
        f'aria-labelledby="{escape(section.key)}-heading">'
        f'<h2 id="{escape(section.key)}-heading">{escape(section.heading)}</h2>'
        f'<p class="about">{escape(section.text)}</p>{inner}</section>'
    )


def _curves(section: CurvesSection, place: int, policies: Sequence[str]) -> str:
    buttons = "".join(
        f'<button type="button" aria-pressed="true" data-policy="{escape(curve.policy)}">'
        f"{policy_key(policies.index(curve.policy))}{escape(curve.policy)}</button>"
        for curve in section.curves
    )
    return (
        f'<div class="legend" role="group" aria-label="Lines shown in {escape(section.heading)}">'
        f"{buttons}</div>"
        f'<div class="chart" data-section="{place}" tabindex="0" role="group" '
        f'aria-label="{escape(section.heading)}: {escape(section.y_label)} over '
        f'{escape(section.x_label)}. Left and right arrow keys read values."></div>'
    )


def _gantt(section: GanttSection, place: int, policies: Sequence[str]) -> str:
    panels = "".join(_panel(panel, section, policies) for panel in section.panels)
    return (
        f'<div class="gantt-body" data-section="{place}">'
        '<div class="toolbar" role="toolbar" aria-label="Time axis of all charts">'
        '<button type="button" data-action="in" aria-label="Zoom in" title="Zoom in (+)">+</button>'
        '<button type="button" data-action="out" aria-label="Zoom out" title="Zoom out (-)">'
        "\N{MINUS SIGN}</button>"
        '<button type="button" data-action="left" aria-label="Earlier" title="Earlier (left key)">'
        '<svg viewBox="0 0 10 10" aria-hidden="true"><path d="M7 1 3 5l4 4"/></svg></button>'
        '<button type="button" data-action="right" aria-label="Later" title="Later (right key)">'
        '<svg viewBox="0 0 10 10" aria-hidden="true"><path d="m3 1 4 4-4 4"/></svg></button>'
        '<button type="button" data-action="reset" title="Show everything (0)">Reset</button>'
        '<output class="window" aria-live="off"></output>'
        '<span class="hint">Wheel or pinch to zoom, drag to move. Keys: + \N{MINUS SIGN} arrows 0.'
        "</span></div>"
        f"{_job_buttons(section)}"
        '<p class="job-facts" role="status"><span class="advice">Click a task, or a job above, to '
        f"follow it through all charts; Esc lets go.</span></p>{panels}</div>"
    )


def _job_buttons(section: GanttSection) -> str:
    colours = job_colours(len(section.job_names))
    buttons = "".join(
        f'<button type="button" aria-pressed="false" data-job="{job}">'
        f'<i style="background:{colours[job]}"></i><span class="number">{job}</span> {escape(name)}'
        "</button>"
        for job, name in enumerate(section.job_names[:MOST_JOB_BUTTONS])
    )
    left_out = len(section.job_names) - MOST_JOB_BUTTONS
    more = f'<span class="more">and {left_out:,} more: click a task</span>' if left_out > 0 else ""
    return f'<div class="jobs" role="group" aria-label="Follow a job">{buttons}{more}</div>'


def _panel(panel: GanttPanel, section: GanttSection, policies: Sequence[str]) -> str:
    jct_ms = panel.completion_ms - section.arrival_ms
    policy = escape(panel.policy)
    mean = number(float(jct_ms.mean()) / MS[section.unit], section.unit)
    return (
        f'<figure class="panel"><figcaption>{policy_key(policies.index(panel.policy))}'
        f'<strong>{policy}</strong> <span class="aside">mean completion time in this episode {mean}</span>'
        "</figcaption>"
        f'<div class="plot" tabindex="0" role="group" aria-label="Gantt chart of '
        f"{policy}: {len(panel.job):,} tasks on {panel.row_count:,} "
        f'{escape(section.row_word)}s. Plus and minus zoom, arrow keys move, 0 shows everything.">'
        f'<canvas data-policy="{policy}" data-tasks="{len(panel.job)}" data-drawn="0" '
        'role="img" aria-label="tasks coloured by job"></canvas>'
        '<canvas class="overlay" aria-hidden="true"></canvas>'
        '<svg class="frame" aria-hidden="true"></svg></div></figure>'
    )
