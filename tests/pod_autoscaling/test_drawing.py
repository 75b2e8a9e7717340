"""Pictures of pod autoscaling: every number in its place, one scale for all policies, no text on text."""

import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from tests.pod_autoscaling.made_up_episodes import made_up_episode

from trimtab.control.drift import Drift, Seen
from trimtab.control.reasons import Reason, Step
from trimtab.core.errors import TrimtabError
from trimtab.pod_autoscaling.drawing import (
    Marks,
    changes_of,
    draw_episodes,
    drift_marks,
    episodes_figure,
    guard_marks,
)
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.guarding import Acted

PANELS = 8
ROWS = ["replicas", "pod CPU", "pod memory", "out of memory"]


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    """Two hours, which fit into three columns interval by interval."""
    return [made_up_episode(policy, every=every) for policy, every in (("a", 4), ("b", 40))]


def block(figure: Figure, place: int) -> list[Axes]:
    return figure.axes[PANELS * place : PANELS * (place + 1)]


def marks(axes: Axes) -> list[LineCollection]:
    return [found for found in axes.collections if isinstance(found, LineCollection)]


def moments(collection: LineCollection) -> list[float]:
    return [float(segment[0][0]) for segment in collection.get_segments()]


def texts(figure: Figure) -> list[Text]:
    """Every text that can be seen, with its place on the page known; ticks beyond the axes cannot."""
    FigureCanvasAgg(figure).draw()
    beyond = {
        tick.label1
        for axes in figure.axes
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim()))
        for tick in axis.get_major_ticks()
        if not min(limits) <= tick.get_loc() <= max(limits)
    }
    return [
        text
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip() and text not in beyond
    ]


@pytest.mark.parametrize("dark", [False, True])
def test_a_png_is_written(dark: bool, episodes: list[Episode], tmp_path: Path) -> None:
    draw_episodes(episodes, tmp_path / "picture.png", dark=dark)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_an_svg_parses_and_is_the_same_twice(episodes: list[Episode], tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw_episodes(episodes, tmp_path / name)
    assert ElementTree.parse(tmp_path / "one.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_lines_hold_the_numbers_of_the_episode(episodes: list[Episode]) -> None:
    figure = episodes_figure(episodes)
    for place, episode in enumerate(episodes):
        rate, latency, cores, memory, replicas, pod_cores, pod_memory, _ = block(figure, place)
        share = episode.memory_used / episode.memory_held
        shown = [
            (rate.lines[0], episode.arrived / 15),
            (rate.lines[1], episode.failed / 15),
            (latency.lines[0], episode.latency_p99_s),
            (latency.lines[1], episode.latency_p50_s),
            (cores.lines[0], episode.cores_held),
            (cores.lines[1], episode.cores_used),
            (memory.lines[0], episode.memory_held / 1024),
            (memory.lines[1], episode.memory_used / 1024),
            (replicas.lines[0], episode.ready),
            (replicas.lines[1], episode.size[:, 0]),
            (pod_cores.lines[0], episode.size[:, 1]),
            (pod_memory.lines[0], episode.size[:, 2]),
            (pod_memory.lines[1], share * episode.size[:, 2]),
        ]
        for line, values in shown:
            np.testing.assert_allclose(np.asarray(line.get_ydata())[:-1], values)
            np.testing.assert_allclose(np.asarray(line.get_xdata()), np.arange(481) / 240)
        assert latency.get_yscale() == "log"
        assert set(np.asarray(latency.lines[2].get_ydata())) == {episode.slo_s}


def test_violations_are_shaded_for_as_long_as_they_last(episodes: list[Episode]) -> None:
    """Two hours, so the widths of the spans are twice the share of intervals above the budget."""
    figure = episodes_figure(episodes)
    for place, episode in enumerate(episodes):
        latency = block(figure, place)[1]
        spans = next(c for c in latency.collections if isinstance(c, PolyCollection))
        widths = [np.ptp(np.asarray(path.vertices)[:, 0]) for path in spans.get_paths()]
        assert sum(widths) == pytest.approx(2 * episode.metrics()["violation_share"])
        assert sum(widths) > 0


def test_every_change_has_its_tick_and_kills_the_colour_of_the_limit(episodes: list[Episode]) -> None:
    figure = episodes_figure(episodes)
    assert [label.get_text() for label in block(figure, 0)[-1].get_yticklabels()] == ROWS
    for place, episode in enumerate(episodes):
        replicas, cpu, memory, killed = marks(block(figure, place)[-1])
        changed = np.flatnonzero(np.diff(episode.size[:, 0])) + 1
        np.testing.assert_allclose(moments(replicas), changed / 240)
        # Made up: pods are resized in the middle, and killed at three quarters.
        assert moments(cpu) == moments(memory) == [1.0]
        assert moments(killed) == [1.5]
        limit = block(figure, place)[1].lines[2].get_color()
        assert isinstance(limit, str)
        np.testing.assert_allclose(
            np.asarray(killed.get_colors())[0][:3],
            [int(limit[at : at + 2], 16) / 255 for at in (1, 3, 5)],  # pyright: ignore[reportCallIssue]
            atol=1e-6,
        )


def test_others_add_marks_of_their_own(episodes: list[Episode]) -> None:
    """A guard that fell back in b alone has its row in both, and its tick in one."""

    def marked(episode: Episode) -> list[Marks]:
        fell_back = Marks("fell back", np.array([600.0, 4500.0]), alarming=True)
        return [*changes_of(episode), *([fell_back] if episode.policy == "b" else [])]

    figure = episodes_figure(episodes, marks=marked)
    rows = [label.get_text() for label in block(figure, 0)[-1].get_yticklabels()]
    assert rows == [*ROWS, "fell back"]
    assert len(marks(block(figure, 0)[-1])) == 4
    *_, last = marks(block(figure, 1)[-1])
    assert moments(last) == [600 / 3600, 1.25]
    assert float(last.get_segments()[0][:, 1].mean()) == pytest.approx(4)


def acted(why: Reason, *, refused: Reason = Reason.NONE) -> Acted:
    reasons = np.zeros((2, len(Step)), np.int8)
    reasons[1, Step.CHOOSE], reasons[1, Step.VALIDATE] = why, refused
    return Acted(np.zeros(2, np.int8), reasons, np.zeros(2))


def test_a_guard_has_a_row_for_every_reason_not_to_let_the_policy_act(episodes: list[Episode]) -> None:
    told = [acted(Reason.OBSERVING)] * 3 + [acted(Reason.POLICY_ACTS)] * 473
    told += [acted(Reason.INVALID, refused=Reason.NOT_FINITE), acted(Reason.SUSPENDED)] * 2
    told[1] = acted(Reason.OBSERVING, refused=Reason.NO_ANSWER)
    found = guard_marks(episodes[0], told, row=1)
    assert [(one.name, one.alarming) for one in found] == [
        ("observing", False), ("suspended", True), ("no answer", True),
    ]  # fmt: skip
    assert [one.moments_s.tolist() for one in found] == [[0, 15, 30], [7155, 7185], [15, 7140, 7170]]
    with pytest.raises(TrimtabError, match="a has 480 intervals, the guard acted in 479"):
        guard_marks(episodes[0], told[1:])


def test_drift_is_drawn_at_the_end_of_the_interval_that_raised_it(episodes: list[Episode]) -> None:
    said = [Seen(Drift.LEARNING), Seen(Drift.WARN), Seen(Drift.STEADY), Seen(Drift.ALARM), Seen(Drift.ALARM)]
    warning, alarm = drift_marks(episodes[0], said)
    assert (warning.moments_s.tolist(), warning.alarming) == ([30], False)
    assert (alarm.moments_s.tolist(), alarm.alarming) == ([60, 75], True)


def test_blocks_share_their_axes(episodes: list[Episode]) -> None:
    figure = episodes_figure(episodes)
    for left, right in zip(block(figure, 0), block(figure, 1), strict=True):
        assert left.get_xlim() == right.get_xlim() == (0, 2)
        assert left.get_ylim() == right.get_ylim()


def test_the_title_tells_policy_cores_lateness_memory_and_use(episodes: list[Episode]) -> None:
    told = [text.get_text() for text in block(episodes_figure(episodes), 0)[0].texts]
    metrics = episodes[0].metrics()
    assert told[0] == "a"
    assert f"{metrics['core_hours']:.0f} core-h/day" in told[1]
    assert f"{100 * metrics['late_share']:.2g} % late" in told[1]
    assert f"{metrics['memory_gib_hours']:.0f} GiB-h/day" in told[1]
    assert f"CPU {100 * metrics['cpu_utilisation']:.0f} %" in told[1]


@pytest.mark.parametrize(("count", "intervals"), [(1, 480), (2, 480), (3, 120), (3, 5760), (4, 480)])
def test_no_text_lies_on_another_or_leaves_the_page(count: int, intervals: int) -> None:
    names = ["hpa", "hpa-vpa (tuned)", "a-policy:with=0.7,settings=12,and=a,long=name,to=boot", "multi"]
    shown = [
        made_up_episode(
            name,
            application="an-application-with-a-long-name",
            intervals=intervals,
            every=every,
            start_s=86_400.0 * 12,
            seed=1_000_000,
        )
        for name, every in zip(names[:count], (2, 7, 30, 400), strict=False)
    ]
    figure = episodes_figure(shown)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    page = figure.bbox
    for text, box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1, text
        assert page.y0 <= box.y0 and box.y1 <= page.y1, text
    # Boxes hold room for letters that reach below the line; a pixel in common is no collision.
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{one!r} lies on {other!r}"


@pytest.mark.parametrize(
    ("start_h", "intervals", "expected"),
    [
        (17.25, 240, ["17:15", "17:20", "17:25"]),
        (0.0, 5760, ["0", "2", "4"]),
        (24.0, 2 * 5760, ["0\nday 1", "3", "6"]),
    ],
)
def test_the_time_axis_is_the_clock(start_h: float, intervals: int, expected: list[str]) -> None:
    figure = episodes_figure([made_up_episode(intervals=intervals, start_s=3600 * start_h)])
    FigureCanvasAgg(figure).draw()
    labels = [label.get_text() for label in block(figure, 0)[-1].get_xticklabels()]
    assert labels[:3] == expected


def test_more_intervals_than_pixels_are_drawn_as_means_with_their_range() -> None:
    shown = [made_up_episode(policy, intervals=5760) for policy in "abc"]
    figure = episodes_figure(shown)
    rate = block(figure, 0)[0]
    (told,) = [text.get_text() for text in figure.texts]
    size = int(told.split("means of ")[1].split()[0])
    mean = np.asarray(rate.lines[0].get_ydata())[:-1]
    whole = 5760 // size
    expected = shown[0].arrived[: whole * size].reshape(whole, size).mean(1) / 15
    np.testing.assert_allclose(mean[:whole], expected)
    band = next(c for c in rate.collections if isinstance(c, PolyCollection))
    assert np.asarray(band.get_paths()[0].vertices)[:, 1].max() == pytest.approx(shown[0].arrived.max() / 15)


def test_where_nothing_was_answered_there_is_a_gap(episodes: list[Episode]) -> None:
    silent = episodes[0].latency_p99_s.copy()
    silent[100:110] = np.nan
    quiet = replace(episodes[0], latency_p99_s=silent)
    line = block(episodes_figure([quiet]), 0)[1].lines[0]
    assert np.flatnonzero(np.isnan(np.asarray(line.get_ydata()))).tolist() == list(range(100, 110))
    # In means of several intervals, those that are known count.
    day = made_up_episode(intervals=5760)
    holed = replace(day, latency_p99_s=np.where(np.arange(5760) % 2 == 0, np.nan, day.latency_p99_s))
    drawn = block(episodes_figure([holed] * 3), 0)[1].lines[0]
    assert np.isfinite(np.asarray(drawn.get_ydata())).all()


def test_an_idle_service_is_drawn_too(episodes: list[Episode]) -> None:
    """Nothing arrives, nothing changes, nothing is late: no axis is without a height."""
    nothing = np.zeros(480, np.int64)
    idle = replace(
        episodes[0],
        arrived=nothing,
        finished=nothing,
        late=nothing,
        failed=nothing,
        kills=nothing,
        latency_s=np.full(480, np.nan),
        latency_p50_s=np.full(480, np.nan),
        latency_p99_s=np.full(480, np.nan),
        size=np.tile([1.0, 1.0, 512.0], (480, 1)),
    )
    figure = episodes_figure([idle])
    FigureCanvasAgg(figure).draw()
    assert all(low != high for low, high in (axes.get_ylim() for axes in figure.axes))


def test_what_cannot_be_drawn_is_refused(episodes: list[Episode], tmp_path: Path) -> None:
    with pytest.raises(TrimtabError, match=r"picture\.pdf: .*\.png or \.svg"):
        draw_episodes(episodes, tmp_path / "picture.pdf")
    with pytest.raises(TrimtabError, match="no episodes"):
        draw_episodes([], tmp_path / "picture.png")
    other = made_up_episode("b", application="other")
    with pytest.raises(TrimtabError, match=r"a and b are of different services \(made-up and other\)"):
        draw_episodes([episodes[0], other], tmp_path / "picture.png")
    with pytest.raises(TrimtabError, match="a and b are not of the same time"):
        draw_episodes([episodes[0], replace(episodes[1], start_s=60.0)], tmp_path / "picture.png")
    empty = replace(episodes[0], rewards=np.zeros(0))
    with pytest.raises(TrimtabError, match="a has no intervals"):
        draw_episodes([empty], tmp_path / "picture.png")


def test_three_days_are_drawn_in_seconds_and_small_files(tmp_path: Path) -> None:
    days = [made_up_episode(policy, intervals=3 * 5760) for policy in "abc"]
    began = time.process_time()
    draw_episodes(days, tmp_path / "days.svg")
    # About 2 s on one core; 15 MB if every interval were a corner of every line.
    assert time.process_time() - began < 15
    assert (tmp_path / "days.svg").stat().st_size < 3_000_000
