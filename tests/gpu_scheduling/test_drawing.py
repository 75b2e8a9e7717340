"""Pictures of GPU scheduling: files of the right kind, and every GPU held where the log says so."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba_array
from tests.gpu_scheduling.made_up_episodes import MINUTE_MS, made_up_episode

from trimtab.core.colours import job_colours
from trimtab.core.errors import TrimtabError
from trimtab.gpu_scheduling import drawing
from trimtab.gpu_scheduling.drawing import draw_episodes, episodes_figure, lanes_of, over_time


@pytest.mark.parametrize("dark", [False, True])
def test_a_png_is_written(dark: bool, tmp_path: Path) -> None:
    draw_episodes([made_up_episode("one"), made_up_episode("two")], tmp_path / "a.png", dark=dark)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_an_svg_parses_and_is_the_same_twice(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw_episodes([made_up_episode()], tmp_path / name)
    assert ElementTree.parse(tmp_path / "one.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


PATIENT = "smallest+fast+patient:neighbours=2,tightness=0.3,least_speed=0.6"


@pytest.mark.parametrize(
    "name", ["fifo", "smallest+fast+patient", PATIENT, f"{PATIENT},{PATIENT[22:]}", 9 * PATIENT]
)
def test_titles_stay_on_the_page_and_apart(name: str) -> None:
    figure = episodes_figure([made_up_episode(name), made_up_episode("fifo")])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    page = figure.bbox
    for axes in (figure.axes[0], figure.axes[3]):
        title, facts = (text.get_window_extent(canvas.get_renderer()) for text in axes.texts)
        for box in (title, facts):
            assert page.x0 <= box.x0 and box.x1 <= page.x1 and box.y1 <= page.y1
        assert not title.overlaps(facts) and not title.overlaps(axes.bbox)
    shown = figure.axes[0].texts[0].get_text()
    assert shown == name if len(name) < 120 else shown.endswith("…")


def test_every_gpu_of_every_stay_has_its_lane() -> None:
    """m0 has the lanes 0 and 1, m1 has 2 and 3; a share is as high as what it holds."""
    lanes = lanes_of(made_up_episode())
    found = set(
        zip(lanes.job.tolist(), lanes.lane.tolist(), (lanes.start_ms // MINUTE_MS).tolist(), strict=True)
    )
    assert found == {
        (1, 2, 0),
        (0, 0, 0),
        (0, 1, 0),
        (2, 2, 2),
        (3, 2, 10),
        (3, 3, 10),
        (3, 0, 14),
        (3, 1, 14),
    }
    by_job = dict(
        zip(lanes.job.tolist(), zip(lanes.top.tolist(), lanes.height.tolist(), strict=True), strict=True)
    )
    assert by_job[1] == (0.0, 0.5)
    assert by_job[2] == (0.5, 0.25)  # below the half that job 1 holds at the same time
    assert by_job[3] == (0.0, 1.0)
    area = (lanes.height * (lanes.end_ms - lanes.start_ms)).sum()
    assert area == made_up_episode().busy_gpu_ms


def test_shares_that_find_no_gap_stay_inside_their_lane() -> None:
    """A quarter, a half and a quarter; when the quarters have gone, a half finds two gaps of a quarter."""
    start, end = np.array([0, 0, 0, 5]), np.array([4, 9, 4, 9])
    height = np.array([0.25, 0.5, 0.25, 0.5])
    top = drawing._side_by_side(start, end, height)
    assert (top >= 0).all() and (top + height <= 1).all()


def test_who_waits_and_what_is_free() -> None:
    """Job 3 waits from 1 to 10 and, stopped, from 12 to 14."""
    course = over_time(made_up_episode())
    at = dict(zip((course.moment_ms // MINUTE_MS).tolist(), range(len(course.moment_ms)), strict=True))
    assert course.waiting[[at[m] for m in (0, 1, 2, 10, 12, 14, 20)]].tolist() == [0, 1, 1, 0, 1, 0, 0]
    assert course.free[[at[m] for m in (0, 2, 6, 10, 12, 14, 20)]].tolist() == [1.5, 1.25, 1.75, 2, 4, 2, 4]
    assert course.stranded[[at[m] for m in (0, 1, 10, 12)]].tolist() == [0, 1.5, 0, 4]


def test_a_job_has_one_colour_in_all_blocks() -> None:
    figure = episodes_figure([made_up_episode("one"), made_up_episode("two", late_min=3)])
    assert len(figure.axes) == 6
    colours = to_rgba_array(job_colours(4))
    for axes in figure.axes[::3]:
        (stays,) = [one for one in axes.collections if isinstance(one, PolyCollection)]
        np.testing.assert_array_equal(stays.get_facecolor(), colours[lanes_of(made_up_episode()).job])
    assert len({axes.get_xlim() for axes in figure.axes}) == 1


def test_of_a_large_cluster_a_row_is_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MOST_LANES", 3)
    (image,) = episodes_figure([made_up_episode()]).axes[0].images
    held = np.asarray(image.get_array())
    assert held.shape[0] == 2
    bins = held.shape[1]
    # Of 20 minutes: m0 is full until 10 and from 14 on; m1 holds three eighths at 4, all at 11.
    assert held[0, int(bins * 5 / 20)] == 1 and held[0, int(bins * 13 / 20)] == 0
    assert held[1, int(bins * 4 / 20)] == 0.375 and held[1, int(bins * 11 / 20)] == 1


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrimtabError, match="no episodes to draw"):
        episodes_figure([])
    with pytest.raises(TrimtabError, match="record_runs=True"):
        episodes_figure([replace(made_up_episode(), runs=None)])
    with pytest.raises(TrimtabError, match=r"a\.pdf: .*\.png or \.svg"):
        draw_episodes([made_up_episode()], tmp_path / "a.pdf")
