"""The published test of the representation (Decima, section 5.1), small enough for every run."""

import pytest
from benchmarks.decima_representation import Probe, accuracy, single_level, trainer

from trimtab.networks.graph_encoder import encode

PROBE = Probe(stages=8, edge_chance=0.25, steps=3_000)


@pytest.mark.slow
def test_only_an_outer_non_linearity_finds_the_critical_path() -> None:
    two = accuracy(encode, trainer(encode, PROBE)(0), PROBE, dags=2_000)
    single = accuracy(single_level, trainer(single_level, PROBE)(0), PROBE, dags=2_000)
    # Over six seeds: 0.974 to 0.982 against 0.764 to 0.770; a blind choice among the first stages has 0.31.
    assert two > 0.95
    assert single < two - 0.1
