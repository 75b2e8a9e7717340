"""Traces of requests are those that all wings share: one file serves streams and pods."""

from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import WorkloadError
from trimtab.pod_autoscaling.workload import Provenance, RateTrace, load_trace, make_application, save_trace
from trimtab.pod_autoscaling.workload.presets import TraceSettings, draw_trace
from trimtab.rates import traces
from trimtab.stream_autoscaling.workload import jobs, presets


def test_one_kind_of_trace() -> None:
    assert RateTrace is traces.RateTrace
    assert load_trace is traces.load_trace


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([3.0, -1.0], "mine: rate -1.0 at step 1; fill or cut such steps"),
        ([3.0, 2.0, float("nan")], "mine: rate nan at step 2"),
        ([], "mine: no rates"),
    ],
)
def test_bad_rates_are_named_by_their_step(rates: list[float], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        RateTrace(np.array(rates), 1.0, Provenance("mine"))


def test_a_file_serves_both_wings(tmp_path: Path) -> None:
    path = tmp_path / "mine.trace"
    save_trace(RateTrace(np.tile([1.0, 3.0], 3 * 720), 60.0, Provenance("mine")), path)
    name = str(path)
    requests = draw_trace(
        TraceSettings(name=name, mean_rate=10), make_application("web"), seed=0, part="test"
    )
    records = presets.draw_trace(
        presets.TraceSettings(name=name, mean_rate=10), jobs.make_job("linear:3"), seed=0, part="test"
    )
    assert set(requests.rates.tolist()) == set(records.rates.tolist()) == {5, 15}
    assert (requests.length_s, records.length_s) == (3600, 86_400)
