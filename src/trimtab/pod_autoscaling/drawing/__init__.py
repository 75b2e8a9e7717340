"""Pictures of pod autoscaling: what arrived, how late it was answered, what was held for it and changed."""

from trimtab.pod_autoscaling.drawing.figure import draw_episodes, episodes_figure
from trimtab.pod_autoscaling.drawing.marks import Marks, changes_of, drift_marks, guard_marks

__all__ = ["Marks", "changes_of", "draw_episodes", "drift_marks", "episodes_figure", "guard_marks"]
