"""Pictures of DAG scheduling: files of the right kind that show every task in its job's colour."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_rgba_array
from tests.synthetic_episodes import episode

from trimtab.core.colours import JOB_COLOURS, job_colours, policy_styles
from trimtab.core.errors import TrimtabError
from trimtab.dag_scheduling import drawing
from trimtab.dag_scheduling.episode import Episode

DRAWINGS = [drawing.gantt, drawing.jct_distribution, drawing.jobs_over_time]


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return [episode("fair"), episode("shortest-job-first")]


@pytest.mark.parametrize("draw", DRAWINGS)
@pytest.mark.parametrize("dark", [False, True])
def test_a_png_is_written(
    draw: Callable[..., None], dark: bool, episodes: list[Episode], tmp_path: Path
) -> None:
    draw(episodes, tmp_path / "picture.png", dark=dark)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("draw", DRAWINGS)
def test_an_svg_parses_and_is_the_same_twice(
    draw: Callable[..., None], episodes: list[Episode], tmp_path: Path
) -> None:
    for name in ("one.svg", "two.svg"):
        draw(episodes, tmp_path / name)
    assert ElementTree.parse(tmp_path / "one.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_another_suffix_is_refused(episodes: list[Episode], tmp_path: Path) -> None:
    with pytest.raises(TrimtabError, match=r"picture\.pdf: .*\.png or \.svg"):
        drawing.gantt(episodes, tmp_path / "picture.pdf")


def test_the_gantt_shows_every_task_once_in_the_colour_of_its_job(episodes: list[Episode]) -> None:
    figure = drawing.gantt_figure(episodes)
    assert len(figure.axes) == len(episodes)
    colours = to_rgba_array(job_colours(6))
    for axes, shown in zip(figure.axes, episodes, strict=True):
        (tasks,) = [c for c in axes.collections if isinstance(c, PolyCollection)]
        assert shown.tasks is not None
        assert len(tasks.get_paths()) == len(shown.tasks.job)
        np.testing.assert_array_equal(tasks.get_facecolor(), colours[shown.tasks.job])
        # The first task: from its start to its end, in seconds, on its executor's row.
        (left, top), _, (right, bottom), *_ = np.asarray(tasks.get_paths()[0].vertices)
        assert left * 1000 == pytest.approx(shown.tasks.start_ms[0])
        assert right * 1000 == pytest.approx(shown.tasks.end_ms[0])
        assert (top + bottom) / 2 == shown.tasks.executor[0]


def test_the_gantt_marks_every_completion_and_names_policy_and_mean(
    episodes: list[Episode],
) -> None:
    figure = drawing.gantt_figure(episodes)
    for axes, shown in zip(figure.axes, episodes, strict=True):
        (marks,) = [c for c in axes.collections if isinstance(c, PathCollection)]
        np.testing.assert_allclose(np.asarray(marks.get_offsets())[:, 0] * 1000, shown.completion_ms)
        texts = [text.get_text() for text in axes.texts]
        assert texts[0] == shown.policy
        assert f"{shown.jct_ms.mean() / 1000:.1f} s" in texts[1]


def test_a_long_name_leaves_room_for_the_fact_beside_it() -> None:
    long = replace(episode("fair"), policy="runs/" + "a-very-long-name-of-a-run-" * 6)
    figure = drawing.gantt_figure([long])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in figure.axes[0].texts]
    assert len(boxes) == 2 and not boxes[0].overlaps(boxes[1])
    assert max(box.x1 for box in boxes) <= figure.bbox.x1


def test_panels_share_their_time_axis(episodes: list[Episode]) -> None:
    first, second = drawing.gantt_figure(episodes).axes
    assert first.get_xlim() == second.get_xlim()
    last_s = max(int(e.completion_ms.max()) for e in episodes) / 1000
    assert first.get_xlim() == (0, last_s)


def test_colours_of_jobs_are_stable_and_neighbours_differ() -> None:
    assert job_colours(30)[:10] == job_colours(10)
    assert job_colours(25)[24] == job_colours(1)[0]
    assert len(set(JOB_COLOURS)) == len(JOB_COLOURS) == 24


def test_a_policy_keeps_its_style_when_others_join() -> None:
    assert policy_styles(["a", "b"])["b"] == policy_styles(["a", "b", "c"])["b"]
    styles = policy_styles([f"policy {place}" for place in range(8)])
    assert len(set(styles.values())) == 8
    assert styles != policy_styles(list(styles), dark=True)


def test_the_distribution_rises_from_none_to_all(episodes: list[Episode]) -> None:
    (axes,) = drawing.jct_distribution_figure(episodes).axes
    assert [line.get_label() for line in axes.lines] == ["fair", "shortest-job-first"]
    for line, shown in zip(axes.lines, episodes, strict=True):
        share = np.asarray(line.get_ydata())
        assert share[0] == 0
        assert share[-1] == 1
        times = np.asarray(line.get_xdata()) * 1000
        np.testing.assert_allclose(times[1:-1], np.sort(shown.jct_ms))


def test_episodes_of_one_policy_are_pooled_in_the_distribution() -> None:
    two_seeds = [episode("fair", seed=0), episode("fair", seed=1)]
    (axes,) = drawing.jct_distribution_figure(two_seeds).axes
    (line,) = axes.lines
    assert len(np.asarray(line.get_xdata())) == 2 + 2 * 6


def test_jobs_over_time_end_at_zero(episodes: list[Episode]) -> None:
    (axes,) = drawing.jobs_over_time_figure(episodes).axes
    for line in axes.lines:
        assert np.asarray(line.get_ydata())[-1] == 0


@pytest.mark.parametrize(("span_ms", "unit"), [(60_000, "s"), (600_000, "min"), (4 * 3_600_000, "h")])
def test_the_time_axis_has_a_unit_people_would_choose(span_ms: int, unit: str) -> None:
    short = episode("fair")
    factor = span_ms / int(short.completion_ms.max())
    scaled = replace(
        short,
        arrival_ms=(short.arrival_ms * factor).astype(np.int64),
        completion_ms=(short.completion_ms * factor).astype(np.int64),
    )
    (axes,) = drawing.jobs_over_time_figure([scaled]).axes
    assert axes.get_xlabel().endswith(f"({unit})")


def test_missing_logs_and_missing_episodes_are_refused(tmp_path: Path) -> None:
    without_log = replace(episode("fair"), tasks=None)
    with pytest.raises(TrimtabError, match="fair has no task log"):
        drawing.gantt([without_log], tmp_path / "picture.png")
    for draw in DRAWINGS:
        with pytest.raises(TrimtabError, match="no episodes"):
            draw([], tmp_path / "picture.png")


def test_22_000_tasks_a_panel_are_drawn_in_seconds_and_small_files(tmp_path: Path) -> None:
    large = [
        episode(policy, jobs=20, executors=50, tasks=22_000, gap_ms=12_000)
        for policy in ("fair", "shortest-job-first")
    ]
    began = time.process_time()
    drawing.gantt(large, tmp_path / "gantt.svg")
    # About 1 s on one core; a patch per task would take a minute.
    assert time.process_time() - began < 15
    assert (tmp_path / "gantt.svg").stat().st_size < 1_000_000
