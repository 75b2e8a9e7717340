"""Pictures of stream autoscaling: every number in its place, one scale for all policies, no text on text."""

import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.text import Text
from tests.stream_autoscaling.made_up_episodes import made_up_episode

from trimtab.core.errors import TrimtabError
from trimtab.stream_autoscaling.drawing import draw_episodes, episodes_figure
from trimtab.stream_autoscaling.episode import Episode, left_scale

PANELS = 7


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    """Six hours, which fit into three columns minute by minute."""
    return [made_up_episode(policy, intervals=360, every=every) for policy, every in (("a", 20), ("b", 60))]


def block(figure: Figure, place: int) -> list[Axes]:
    """The panels of one episode; axes of the colour bar come after the block whose row they end."""
    return figure.axes[PANELS * place : PANELS * (place + 1)]


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
        rates, latency, backlog, _, slots, subtasks, _ = block(figure, place)
        shown = [
            (rates.lines[0], episode.arrived),
            (rates.lines[1], episode.left),
            (latency.lines[0], episode.latency_s),
            (latency.lines[1], episode.latency_p95_s),
            (backlog.lines[0], episode.backlog),
            (slots.lines[0], episode.slots),
            (subtasks.lines[0], episode.parallelism.sum(1)),
        ]
        for line, values in shown:
            np.testing.assert_allclose(np.asarray(line.get_ydata())[:-1], values)
            np.testing.assert_allclose(np.asarray(line.get_xdata()), np.arange(361) / 60)
        assert latency.get_yscale() == "log"
        assert set(np.asarray(latency.lines[2].get_ydata())) == {episode.slo_s}


def test_violations_are_shaded_for_as_long_as_they_last(episodes: list[Episode]) -> None:
    for place, episode in enumerate(episodes):
        latency = block(episodes_figure(episodes), place)[1]
        (spans,) = [c for c in latency.collections if isinstance(c, PolyCollection)]
        widths = [np.ptp(np.asarray(path.vertices)[:, 0]) for path in spans.get_paths()]
        assert sum(widths) == pytest.approx(6 * episode.metrics()["violation_share"])
        assert sum(widths) > 0


def test_every_restart_is_marked_in_every_panel_and_standstill_has_its_length(
    episodes: list[Episode],
) -> None:
    figure = episodes_figure(episodes)
    for place, episode in enumerate(episodes):
        moments = np.flatnonzero(episode.rescaled) / 60
        for axes in block(figure, place):
            marks = [c for c in axes.collections if isinstance(c, LineCollection)][-1]
            np.testing.assert_allclose([segment[0][0] for segment in marks.get_segments()], moments)
        standstill = block(figure, place)[3].collections[0]
        assert isinstance(standstill, LineCollection)
        lengths = [segment[1][1] for segment in standstill.get_segments()]
        assert sum(lengths) == pytest.approx(episode.down_s.sum())


def test_the_map_shows_parallelism_on_one_scale_of_colours_for_all(episodes: list[Episode]) -> None:
    figure = episodes_figure(episodes)
    most = max(int(episode.parallelism.max()) for episode in episodes)
    for place, episode in enumerate(episodes):
        (mesh,) = [c for c in block(figure, place)[-1].collections if isinstance(c, QuadMesh)]
        np.testing.assert_array_equal(np.asarray(mesh.get_array()), episode.parallelism.T)
        assert (mesh.norm.vmin, mesh.norm.vmax) == (1, most)
    bar = figure.axes[-1]
    assert [tick.get_text() for tick in bar.get_yticklabels()][-1] == str(most)


def test_blocks_share_their_axes(episodes: list[Episode]) -> None:
    figure = episodes_figure(episodes)
    for left, right in zip(block(figure, 0), block(figure, 1), strict=True):
        assert left.get_xlim() == right.get_xlim() == (0, 6)
        assert left.get_ylim() == right.get_ylim()


def test_the_title_tells_policy_lateness_restarts_slots_and_reward(episodes: list[Episode]) -> None:
    told = [text.get_text() for text in block(episodes_figure(episodes), 0)[0].texts]
    metrics = episodes[0].metrics()
    assert told[0] == "a"
    assert f"late {100 * metrics['violation_share']:.1f} % of the time" in told[1]
    assert f"{metrics['rescales']:.0f} restarts a day" in told[1]
    assert f"{metrics['slot_hours']:.0f} slot-hours a day" in told[1]
    assert f"reward {metrics['reward']:.3f}".replace("-", "\N{MINUS SIGN}") in told[1]


@pytest.mark.parametrize(("count", "vertices"), [(1, 46), (2, 12), (3, 1), (3, 46), (4, 12)])
def test_no_text_lies_on_another_or_leaves_the_page(count: int, vertices: int) -> None:
    names = ["ds2", "flink (tuned)", "a-policy:with=0.7,settings=12,and=a,long=name,to=boot", "hpa"]
    shown = [
        made_up_episode(name, vertices=vertices, every=every, start_s=86_400.0 * 12)
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


@pytest.mark.parametrize(("vertices", "named"), [(3, 3), (12, 12), (46, 23)])
def test_vertices_are_named_where_there_is_room(vertices: int, named: int) -> None:
    shown = made_up_episode(vertices=vertices, intervals=60)
    labels = block(episodes_figure([shown]), 0)[-1].get_yticklabels()
    assert len(labels) == named
    assert labels[0].get_text() == "source"


@pytest.mark.parametrize(
    ("start_h", "intervals", "expected"),
    [
        (0.0, 1440, ["0", "2", "4"]),
        (33.25, 60, ["09:15", "09:20", "09:25"]),
        (24.0, 7 * 1440, ["0\nday 1", "12", "0\nday 2"]),
    ],
)
def test_the_time_axis_is_the_clock(start_h: float, intervals: int, expected: list[str]) -> None:
    shown = made_up_episode(vertices=2, intervals=intervals, start_s=3600 * start_h)
    figure = episodes_figure([shown])
    FigureCanvasAgg(figure).draw()
    labels = [label.get_text() for label in block(figure, 0)[-1].get_xticklabels()]
    assert labels[:3] == expected


def test_more_intervals_than_pixels_are_drawn_as_means_with_their_range() -> None:
    shown = [made_up_episode(policy, vertices=2) for policy in "abc"]
    figure = episodes_figure(shown)
    rates = block(figure, 0)[0]
    # 3.18 inches hold 190 bins of 8 minutes; 1440 is 180 times 8.
    mean = np.asarray(rates.lines[0].get_ydata())[:-1]
    np.testing.assert_allclose(mean, shown[0].arrived.reshape(180, 8).mean(1))
    band = next(c for c in rates.collections if isinstance(c, PolyCollection))
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert heights.max() == pytest.approx(shown[0].arrived.max())
    assert any("means of 8 intervals" in text.get_text() for text in figure.texts)


def test_a_last_bin_that_is_not_full_counts_what_it_has() -> None:
    shown = made_up_episode(vertices=2, intervals=1441)
    rates = block(episodes_figure([shown, shown, shown]), 0)[0]
    assert np.asarray(rates.lines[0].get_ydata())[-1] == pytest.approx(shown.arrived[-1])


def test_records_that_leave_are_scaled_only_where_they_would_not_be_seen(episodes: list[Episode]) -> None:
    near = replace(episodes[0], left=0.6 * episodes[0].arrived)
    far = replace(episodes[0], left=0.01 * episodes[0].arrived)
    assert left_scale([near]) == 1
    assert left_scale([far]) == 100
    rates = block(episodes_figure([far]), 0)[0]
    assert [line.get_label() for line in rates.lines] == ["arrived", "left × 100"]
    np.testing.assert_allclose(rates.lines[1].get_ydata(), rates.lines[0].get_ydata())


def test_a_quiet_job_is_drawn_too() -> None:
    """Nothing late, no restart, no backlog, parallelism 1: no axis is without a height."""
    quiet = made_up_episode("static", vertices=3, intervals=60)
    nothing = np.zeros(60)
    quiet = replace(
        quiet,
        backlog=nothing,
        down_s=nothing,
        rescaled=nothing.astype(bool),
        parallelism=np.ones((60, 3), np.int64),
        latency_s=np.full(60, 0.3),
    )
    figure = episodes_figure([quiet])
    FigureCanvasAgg(figure).draw()
    assert all(low != high for low, high in (axes.get_ylim() for axes in figure.axes))


def test_what_cannot_be_drawn_is_refused(episodes: list[Episode], tmp_path: Path) -> None:
    with pytest.raises(TrimtabError, match=r"picture\.pdf: .*\.png or \.svg"):
        draw_episodes(episodes, tmp_path / "picture.pdf")
    with pytest.raises(TrimtabError, match="no episodes"):
        draw_episodes([], tmp_path / "picture.png")
    other = made_up_episode("b", vertices=5, intervals=360)
    with pytest.raises(TrimtabError, match=r"a and b are of different jobs \(made-up-12 and made-up-5\)"):
        draw_episodes([episodes[0], other], tmp_path / "picture.png")
    with pytest.raises(TrimtabError, match="a and b are not of the same time"):
        draw_episodes([episodes[0], replace(episodes[1], start_s=60.0)], tmp_path / "picture.png")
    empty = replace(episodes[0], rewards=np.zeros(0))
    with pytest.raises(TrimtabError, match="a has no intervals"):
        draw_episodes([empty], tmp_path / "picture.png")


def test_three_weeks_are_drawn_in_seconds_and_small_files(tmp_path: Path) -> None:
    week = [made_up_episode(policy, vertices=46, intervals=7 * 1440) for policy in "abc"]
    began = time.process_time()
    draw_episodes(week, tmp_path / "week.svg")
    # About 2 s on one core; 11 MB if every minute were a corner of every line.
    assert time.process_time() - began < 15
    assert (tmp_path / "week.svg").stat().st_size < 3_000_000
