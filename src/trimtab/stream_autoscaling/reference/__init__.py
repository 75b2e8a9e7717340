"""The rules of the engine as short, obvious Python: one environment, lists and plain numbers.

Only tests import it. Where engine and reference disagree, one of them is wrong; the text of the rules is the
docstrings here. It uses nothing of the engine, not even its constants.
"""

from trimtab.stream_autoscaling.reference.run import Interval, ReferenceRun

__all__ = ["Interval", "ReferenceRun"]
