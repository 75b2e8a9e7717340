"""Stream autoscaling in a report and in a sentence, which says no more than the episodes do."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.stream_autoscaling.made_up_episodes import made_up_episode

from trimtab.benchmark.compare import Comparison, Contestant, ScenarioResult, _result
from trimtab.benchmark.report import Measured, ReportColumn, ReportRow, ReportTable, write_report
from trimtab.benchmark.report.content import Curve, CurvesSection, Reference
from trimtab.benchmark.report.packing import unpack
from trimtab.benchmark.stream_autoscaling.answer import answer, cost_parts
from trimtab.benchmark.stream_autoscaling.report import stream_facts, stream_sections
from trimtab.benchmark.stream_autoscaling.wing import STREAM
from trimtab.benchmark.suite import Scenario
from trimtab.core.errors import TrimtabError
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.episode import Episode

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    """Two policies, two seeds each."""
    return [
        made_up_episode(policy, every=every, seed=seed)
        for policy, every in (("quick", 15), ("slow", 120))
        for seed in (0, 1)
    ]


def chart(episodes: Sequence[Episode], key: str) -> CurvesSection:
    (found,) = [section for section in stream_sections(episodes) if section.key == key]
    assert isinstance(found, CurvesSection)
    return found


def area(curve: Curve) -> float:
    """Under a step curve, in value times hours."""
    return float((curve.y[:-1] * np.diff(curve.x)).sum() / 3_600_000)


def test_every_policy_has_a_line_in_every_chart_over_the_whole_day(episodes: list[Episode]) -> None:
    sections = stream_sections(episodes)
    assert [section.key for section in sections] == [
        *("latencies", "latency", "slots", "restarts", "backlog", "rates"),
    ]
    for section in sections:
        assert isinstance(section, CurvesSection)
        names = [curve.policy for curve in section.curves]
        assert names == ["quick", "slow", *["arrivals"] * (section.key == "rates")]
        if section.key != "latencies":
            assert {(curve.x[0], curve.x[-1]) for curve in section.curves} == {(0, DAY_MS)}


def test_the_distribution_pools_all_episodes_and_meets_the_limit_at_the_share_in_time(
    episodes: list[Episode],
) -> None:
    section = chart(episodes, "latencies")
    assert section.reference == Reference("limit 5 s", 5000.0, upright=True)
    for curve in section.curves:
        pooled = np.concatenate([e.latency_s for e in episodes if e.policy == curve.policy])
        assert curve.y[-1] == 1
        below = curve.y[np.searchsorted(curve.x, 5000, side="right") - 1]
        # 500 points of 2880 intervals: ranks are known to within 6.
        assert below == pytest.approx((pooled <= 5.0).mean(), abs=6 / 2880)
        assert curve.x[-1] == np.ceil(1000 * pooled.max())


def test_the_area_under_the_slots_is_what_was_paid(episodes: list[Episode]) -> None:
    quick, slow = chart(episodes, "slots").curves
    assert area(quick) == pytest.approx(episodes[0].metrics()["slot_hours"])
    assert area(slow) == pytest.approx(episodes[2].metrics()["slot_hours"])


def test_restarts_are_counted_up_to_all_of_them(episodes: list[Episode]) -> None:
    for curve, episode in zip(chart(episodes, "restarts").curves, episodes[::2], strict=True):
        assert curve.y[0] == 0
        assert curve.y[-1] == episode.rescaled.sum()
        first = int(np.flatnonzero(episode.rescaled)[0])
        assert curve.x[1] == 60_000 * first and curve.y[1] == 1


def test_latency_has_a_log_axis_and_the_limit_and_tells_what_was_averaged(episodes: list[Episode]) -> None:
    section = chart(episodes, "latency")
    assert section.y_log
    assert section.reference == Reference("limit 5 s", 5.0)
    assert section.text.endswith("Shown are means of 10 intervals, 10 min.")
    assert section.x_label == "time since 00:00 of day 0"
    first = section.curves[0].y[0]
    assert first == pytest.approx(episodes[0].latency_s[:10].mean())


def test_a_short_episode_is_shown_as_it_is() -> None:
    short = made_up_episode(intervals=90)
    section = chart([short], "latency")
    assert "means" not in section.text
    changed = np.append(True, np.diff(short.latency_s) != 0)
    np.testing.assert_array_equal(section.curves[0].y[:-1], short.latency_s[changed])


@pytest.mark.parametrize(
    ("size", "unit", "divisor"),
    [(1e-4, "records", 1), (1, "thousand records", 1e3), (1e4, "million records", 1e6)],
)
def test_records_are_told_in_a_unit_that_fits_the_axis(size: float, unit: str, divisor: float) -> None:
    episode = made_up_episode(intervals=90)
    scaled = replace(episode, arrived=size * episode.arrived, left=size * episode.left)
    section = chart([scaled], "rates")
    assert section.y_label == f"{unit} per second"
    arrivals = section.curves[-1]
    assert arrivals.y.max() == pytest.approx(scaled.arrived.max() / divisor)


def test_records_that_leave_are_scaled_where_few_do() -> None:
    episode = made_up_episode(intervals=90)
    thinned = replace(episode, left=0.01 * episode.arrived)
    section = chart([thinned], "rates")
    assert "shown times 100" in section.text
    np.testing.assert_allclose(section.curves[0].y, section.curves[1].y)


def test_a_job_that_drops_records_does_not_look_as_if_work_piled_up() -> None:
    episode = made_up_episode(intervals=90)
    nothing = np.zeros_like(episode.backlog)
    filtered = replace(episode, left=0.6 * episode.arrived, backlog=nothing)
    assert "Of this job 0.6 leave for each that was read" in chart([filtered], "rates").text
    whole = replace(episode, left=episode.arrived, backlog=nothing)
    assert "leave for each" not in chart([whole], "rates").text
    # Four tenths were not read: what is missing did pile up.
    waiting = nothing.copy()
    waiting[-1] = 0.4 * episode.arrived.sum() * episode.interval_s
    behind = replace(filtered, backlog=waiting)
    assert "leave for each" not in chart([behind], "rates").text


def test_facts(episodes: list[Episode]) -> None:
    assert stream_facts(episodes) == {
        "Job": "made-up-12",
        "Vertices": "12",
        "Limit of latency": "5 s",
        "Interval": "60 s",
        "Policies": "2",
        "Episodes": "4",
        "Seeds": "0, 1",
        "Days simulated": "4.0",
        "Decisions": "5,760",
    }
    many = [made_up_episode(intervals=10, seed=seed) for seed in range(10)]
    assert stream_facts(many)["Seeds"] == "10 from 0 to 9"


def test_what_cannot_be_compared_is_refused(episodes: list[Episode]) -> None:
    assert stream_sections([]) == []
    assert stream_facts([]) == {}
    with pytest.raises(TrimtabError, match=r"quick and b are of different jobs \(made-up-12 and made-up-3\)"):
        stream_sections([episodes[0], made_up_episode("b", vertices=3)])
    with pytest.raises(TrimtabError, match="quick and slow are not of the same time"):
        stream_sections([episodes[0], replace(episodes[2], start_s=3600.0)])


def test_the_page_holds_axes_and_limits(episodes: list[Episode], tmp_path: Path) -> None:
    table = ReportTable([ReportColumn("cost", "Cost")], [ReportRow("quick", [Measured(1, 1, 1)])])
    path = tmp_path / "report.html"
    write_report(
        path,
        title="Autoscalers",
        table=table,
        sections=stream_sections(episodes),
        facts=stream_facts(episodes),
        notes=[],
        command="trimtab compare",
        provenance={},
    )
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text)
    assert found is not None
    latencies, latency, slots, *_ = json.loads(found[1])["sections"]
    assert (latencies["xLog"], latencies["yLog"]) == (True, False)
    assert latencies["reference"] == {"label": "limit 5 s", "value": 5000.0, "upright": True}
    assert (latency["xLog"], latency["yLog"]) == (False, True)
    assert slots["reference"] is None
    assert unpack(latencies["curves"][0]["x"]).min() > 0


# --- the answer -------------------------------------------------------------------------------


def compared(episodes: dict[str, list[Episode]], baseline: str) -> tuple[Any, ScenarioResult]:
    scenario = Scenario("made-up", SimpleNamespace(name="made-up"))
    contestants = [Contestant(name, {"made-up": SimpleNamespace(name=name)}) for name in episodes]
    result = _result(STREAM, scenario, contestants, episodes, baseline)
    suite: Any = SimpleNamespace(deployment=Deployment(), wing=STREAM)
    return Comparison("", suite, baseline, (result,)), result


def seeds_of(policy: str, **settings: Any) -> list[Episode]:
    return [made_up_episode(policy, seed=seed, **settings) for seed in range(6)]


def test_the_parts_of_the_cost_sum_to_it(episodes: list[Episode]) -> None:
    objective = Deployment().objective
    for episode in episodes:
        metrics, parts = episode.metrics(), cost_parts(episode, objective)
        assert sum(parts.values()) == pytest.approx(metrics["cost"])
        assert parts["late"] == pytest.approx(0.5 * metrics["violation_share"])
        assert parts["restarts"] == pytest.approx(0.2 * metrics["rescales"] / 1440)
        # Utilisation is weighted with the number of subtasks in the metrics, and by the interval in the cost.
        assert parts["idle"] == pytest.approx(0.3 * (1 - metrics["utilisation"]), abs=0.02)


def test_the_best_is_named_with_what_it_saves_and_why() -> None:
    told = answer(*compared({"busy": seeds_of("busy", every=2), "calm": seeds_of("calm", every=30)}, "busy"))
    assert re.match(
        r"calm would serve this job best: an interval costs 0\.\d{3} \(0\.\d{3} to 0\.\d{3}\), "
        r"\d+ % \(\d+ to \d+ %\) less than under busy, because ",
        told,
    )
    assert re.search(r"the job restarts \d+ times a day, not \d\d\d", told)


def test_what_the_best_does_worse_is_said_too() -> None:
    """Twice the slots, but never late: the price is idle subtasks."""
    tight = seeds_of("tight", every=60, headroom=1.05)
    ample = [replace(episode, policy="ample") for episode in seeds_of("ample", every=60, headroom=2.2)]
    told = answer(*compared({"tight": tight, "ample": ample}, "tight"))
    why, price = told.split("; though ")
    assert why.startswith("ample would serve")
    assert "records are too late" in why.split("because ")[1]
    assert re.match(r"subtasks are busy \d+ % of the time, not \d+ % \([\d.]+ slot-hours a day, not ", price)


def test_nothing_is_claimed_that_may_be_chance() -> None:
    calm = seeds_of("calm", every=30)
    # The same numbers with noise that is as often good as bad: the means differ, the interval holds 1.
    noisy = [
        replace(episode, policy="twin", rewards=episode.rewards + (0.02 if seed % 2 else -0.019))
        for seed, episode in enumerate(calm)
    ]
    told = answer(*compared({"calm": calm, "twin": noisy}, "calm"))
    assert told.startswith("twin (not to be told from calm) would serve this job best")
    assert told.endswith(", though calm may do as well.")
    assert "because" not in told


def test_a_baseline_that_is_best_stays() -> None:
    told = answer(*compared({"busy": seeds_of("busy", every=2), "calm": seeds_of("calm", every=30)}, "calm"))
    assert told.startswith("calm would serve this job best: an interval costs 0.")
    assert told.endswith("; nothing compared here does better.")
