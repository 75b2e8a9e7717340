"""The rules of the simulator once more, as plain objects: slow, obvious, and only for tests.

Written after docs/dag-scheduling.md, not after the engine. A source of executors is a `Stage`, a `Job`
(its pool) or None (the cluster's pool, or a single executor whose job has just finished).
"""

from trimtab.dag_scheduling.reference.run import ReferenceRun, play_reference

__all__ = ["ReferenceRun", "play_reference"]
