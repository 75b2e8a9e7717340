"""A bundle of an autoscaler as drawn: decides badly, but as any trained one does."""

from pathlib import Path

from trimtab.core.bundle import save_bundle
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.network import new_network
from trimtab.stream_autoscaling.sure.policy import make_bundle

SMALL = Design(
    history=6, hidden=8, snapshots=3, neighbours=2, suggestion_score=0.1, commit_score=0.1, base_window_s=1800
)
TRAINED = {
    "jobs": ["linear:3", "q1"],
    "trace": {"name": "sine"},
    "deployment": {"interval_s": 600, "substep_ms": 10_000},
}


def save_untrained(folder: Path, design: Design = SMALL) -> Path:
    parameters = new_network(design, seed=0)
    for head in ("score", "commit") if design.actions == "residual" else ():
        parameters["actor"][head][-1]["weights"] *= 40
    return save_bundle(folder, make_bundle("untrained", parameters, design, trained=TRAINED, scores={}))
