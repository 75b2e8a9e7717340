"""A bundle of a network as drawn: decides badly, but as any trained one does."""

from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.dag_scheduling.decima.network import Design, new_network
from trimtab.dag_scheduling.decima.policy import make_bundle

SMALL = Design(hidden=8, embedding=4)
COURSE = {
    "workload": {"name": "tiny:three-sizes", "jobs": 4, "arrivals": "batch"},
    "cluster": {"executors": 4},
}


def untrained_bundle(design: Design = SMALL, parameters: Any = None) -> Bundle:
    return make_bundle(
        "untrained",
        new_network(design, seed=0) if parameters is None else parameters,
        design,
        most_executors=4,
        trained={"courses": [COURSE]},
        scores={},
    )


def save_untrained(folder: Path) -> Path:
    return save_bundle(folder, untrained_bundle())
