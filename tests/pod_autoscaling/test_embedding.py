"""The picture of contexts: places by hand, shapes by what was seen, colours by the work of a request."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from trimtab.core.errors import TrimtabError
from trimtab.pod_autoscaling.drawing.embedding import draw_embedding, embedding_figure, principal_components

WORK_S = [0.001, 0.01, 0.1, 1.0]
SEEN = [True, True, False, True]


def contexts() -> np.ndarray:
    """Four services along one direction of three, with a little of a second."""
    along, across = np.array([3.0, 4.0, 0.0]) / 5, np.array([0.0, 0.0, 1.0])
    return np.array([-3.0, -1.0, 1.0, 3.0])[:, None] * along + np.array([1, -1, -1, 1])[:, None] * across


def marks(figure: Figure) -> list[PathCollection]:
    return [one for one in figure.axes[0].collections if isinstance(one, PathCollection)]


def test_components_are_those_found_by_hand() -> None:
    found = principal_components(contexts() + 7.0)
    assert found.places[:, 0] == pytest.approx([-3, -1, 1, 3])
    assert found.places[:, 1] == pytest.approx([1, -1, -1, 1])
    # Squares add up to 20 along and to 4 across.
    assert found.shares == pytest.approx([20 / 24, 4 / 24])


def test_the_opposite_contexts_lie_in_the_same_directions() -> None:
    one, other = principal_components(contexts()), principal_components(-contexts())
    assert one.places == pytest.approx(-other.places)


def test_seen_and_never_seen_have_marks_of_their_own() -> None:
    figure = embedding_figure(contexts(), WORK_S, SEEN)
    seen, unseen = marks(figure)
    assert np.asarray(seen.get_offsets())[:, 0] == pytest.approx([-3, -1, 3])
    assert np.asarray(unseen.get_offsets()) == pytest.approx(np.array([[1, -1]]))
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["seen in training (3)", "never seen (1)"]


def test_one_scale_of_colours_for_both() -> None:
    seen, unseen = marks(embedding_figure(contexts(), WORK_S, SEEN))
    assert np.asarray(seen.get_array()) == pytest.approx([1, 10, 1000])
    assert np.asarray(unseen.get_array()) == pytest.approx([100])
    assert seen.get_clim() == unseen.get_clim() == pytest.approx((1, 1000))


def test_a_picture_is_written_the_same_twice(tmp_path: Path) -> None:
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for file in files:
        draw_embedding(contexts(), WORK_S, [False] * 4, file, dark=True)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("shown", "work_s", "told"),
    [
        (np.zeros((1, 3)), [1.0], "two directions need two services"),
        (np.eye(3), [1.0, 2.0], "3 contexts, work of 2 services"),
        (np.eye(3), [1.0, 2.0, 0.0], "colours need more than 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(shown: np.ndarray, work_s: list[float], told: str) -> None:
    with pytest.raises(TrimtabError, match=told):
        embedding_figure(shown, work_s, [True] * len(shown))
