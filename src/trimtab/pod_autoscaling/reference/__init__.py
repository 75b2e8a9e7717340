"""The rules of the engine as short, obvious Python: one service, lists and plain numbers.

Only tests import it. Where engine and reference disagree, one of them is wrong; the text of the rules is
docs/pod-autoscaling.md. It uses nothing of the engine, not even its constants, and goes another way: one list
of events for the whole service, each request with the work that is left of it, all moved at every event.
"""

from trimtab.pod_autoscaling.reference.run import Interval, ReferenceRun

__all__ = ["Interval", "ReferenceRun"]
