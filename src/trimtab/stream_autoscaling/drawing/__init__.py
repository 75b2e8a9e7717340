"""Pictures of stream autoscaling: what arrived, how late it came out, what was spent on it, over a day."""

from trimtab.stream_autoscaling.drawing.figure import draw_episodes, episodes_figure

__all__ = ["draw_episodes", "episodes_figure"]
