"""Put a report into one HTML file that asks the network for nothing.

Text, table and the frames of the charts are plain HTML, escaped here and nowhere else; the scripts
beside this file only draw numbers into the frames. They are inlined as they are: no build step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from trimtab.benchmark.report.content import CurvesSection, GanttSection, Report, ReportTable, Section
from trimtab.benchmark.report.packing import pack
from trimtab.benchmark.report.section_html import section_html
from trimtab.benchmark.report.table_html import table_html
from trimtab.benchmark.report.wording import headline
from trimtab.core.colours import JOB_COLOURS, POLICY_COLOURS, policy_styles

__all__ = ["page", "report_data", "write_page"]

STYLES = ("report.css", "charts.css")
OTHERS_FOLLOW = " The facts above and the charts below are of this one; the tables of the others follow."
SCRIPTS = ("basics.js", "table.js", "curves.js", "gantt_view.js", "gantt_input.js", "report.js")


def write_page(path: Path, report: Report) -> None:
    """Write the page; an interrupted write leaves no half page behind."""
    partial = path.with_name(path.name + ".partial")
    # A path in the command may hold bytes that are no text; the page has question marks for them.
    partial.write_text(page(report), encoding="utf-8", errors="replace")
    partial.replace(path)


def page(report: Report) -> str:
    """The whole page as text."""
    policies = report_policies(report)
    parts = {
        "title": escape(report.title),
        "headline": escape(_headline(report)),
        "facts": _definitions(report.facts),
        "heading": escape(_heading(report.table)),
        "caption": _caption(report.table),
        "others_follow": OTHERS_FOLLOW if report.other_tables else "",
        "table": table_html(report.table, policies),
        "other_tables": "\n".join(
            _other_table(table, f"comparison-{place}", policies)
            for place, table in enumerate(report.other_tables, start=2)
        ),
        "sections": "\n".join(
            section_html(section, place, policies) for place, section in enumerate(report.sections)
        ),
        "notes": "".join(f"<li>{escape(note)}</li>" for note in report.notes),
        "no_notes": "" if report.notes else " hidden",
        "command": escape(report.command),
        "provenance": _definitions(report.provenance),
        "data": script_json(report_data(report)),
        "colours": _colour_variables(),
        "styles": "\n".join(_package_file(name) for name in STYLES),
        "scripts": "\n".join(_package_file(name) for name in SCRIPTS),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _package_file("template.html"))


def _headline(report: Report) -> str:
    """The result; where there are several, which one it is of."""
    told = headline(report.table)
    return f"{report.table.name}: {told}" if report.other_tables and report.table.name else told


def _heading(table: ReportTable) -> str:
    return f"Comparison: {table.name}" if table.name else "Comparison"


def _caption(table: ReportTable) -> str:
    """A caption need not be a sentence, and one follows it."""
    return escape(f"{table.caption.rstrip('.')}.") if table.caption else ""


def _other_table(table: ReportTable, key: str, policies: Sequence[str]) -> str:
    return (
        f'<section class="card" aria-labelledby="{key}-heading">'
        f'<h2 id="{key}-heading">{escape(_heading(table))}</h2>'
        f'<p class="about" id="{key}-caption">{escape(headline(table))} {_caption(table)}</p>'
        f'<div class="table-scroll" tabindex="0" role="region" aria-labelledby="{key}-heading">'
        f"{table_html(table, policies, key=key)}</div></section>"
    )


def report_policies(report: Report) -> list[str]:
    """Every policy once, in the order of the tables; its place decides its colour."""
    names = [row.policy for table in (report.table, *report.other_tables) for row in table.rows]
    for section in report.sections:
        lines = section.curves if isinstance(section, CurvesSection) else section.panels
        names += [line.policy for line in lines]
    return list(dict.fromkeys(names))


def report_data(report: Report) -> dict[str, object]:
    """The numbers that the scripts draw."""
    policies = report_policies(report)
    styles = policy_styles(policies)
    return {
        "policies": [
            {
                "name": name,
                "colour": f"var(--policy-{place % len(POLICY_COLOURS)})",
                "dashes": styles[name][1],
            }
            for place, name in enumerate(policies)
        ],
        "sections": [_section_data(section) for section in report.sections],
    }


def _section_data(section: Section) -> dict[str, object]:
    if isinstance(section, CurvesSection):
        return {
            "kind": "curves",
            "xLabel": section.x_label,
            "yLabel": section.y_label,
            "percent": section.y_percent,
            "onTheClock": section.on_the_clock,
            "decimals": section.decimals,
            "xLog": section.x_log,
            "yLog": section.y_log,
            "reference": None if section.reference is None else asdict(section.reference),
            "curves": [
                {
                    "policy": curve.policy,
                    "x": pack(curve.x),
                    "y": pack(curve.y),
                    "jobX": None if curve.job_x is None else pack(curve.job_x),
                }
                for curve in section.curves
            ],
        }
    return _gantt_data(section)


def _gantt_data(section: GanttSection) -> dict[str, object]:
    """Tasks are sorted by row and start, so a row is a slice and a task is found by halving."""
    panels = []
    for panel in section.panels:
        order = np.lexsort((panel.start_ms, panel.row))
        panels.append(
            {
                "policy": panel.policy,
                "tasksInRow": pack(np.bincount(panel.row, minlength=panel.row_count)),
                "start": pack(panel.start_ms[order]),
                "duration": pack((panel.end_ms - panel.start_ms)[order]),
                "job": pack(panel.job[order]),
                "stage": pack(panel.stage[order]),
                "wave": pack(panel.wave[order]),
                "completion": pack(panel.completion_ms),
            }
        )
    return {
        "kind": "gantt",
        "rowWord": section.row_word,
        "jobs": list(section.job_names),
        "colours": list(JOB_COLOURS),
        "arrival": pack(section.arrival_ms),
        "waves": list(section.wave_names),
        "stageWord": section.stage_word,
        "waveWord": section.wave_word,
        "end": section.end_ms,
        "panels": panels,
    }


def script_json(data: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _colour_variables() -> str:
    lines = [
        f"--policy-{place}: light-dark({light}, {dark});"
        for place, (light, dark) in enumerate(POLICY_COLOURS)
    ]
    return ":root { " + " ".join(lines) + " }"


def _definitions(facts: Mapping[str, str]) -> str:
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(fact)}</dd></div>" for name, fact in facts.items()
    )


def _package_file(name: str) -> str:
    return files("trimtab.benchmark.report").joinpath(name).read_text(encoding="utf-8")
