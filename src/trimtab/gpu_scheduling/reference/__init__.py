"""The rules of the simulator once more, as plain objects: slow, obvious, and only for tests.

Written after docs/gpu-scheduling.md, not after the engine. Machines, jobs and the parts of a job on machines
are objects that hold their own numbers; every question (what fits, who is next) is answered by looking at all
of them. The slot of a job is its position in the workload.
"""

from trimtab.gpu_scheduling.reference.run import ReferenceSimulator, reference_run

__all__ = ["ReferenceSimulator", "reference_run"]
