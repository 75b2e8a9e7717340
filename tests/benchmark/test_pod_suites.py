"""The suites of services: unseen seeds, traces in turn, a fair beginning; and a comparison for real."""

import json
from typing import Any

import numpy as np
import pytest

from trimtab.benchmark.compare import compare
from trimtab.benchmark.pod_autoscaling.suites import (
    ServicesSuite,
    UnseenSuite,
    arriving,
    first_size,
)
from trimtab.benchmark.pod_autoscaling.wing import caption, scenario_ground
from trimtab.benchmark.suite import FIRST_TEST_SEED
from trimtab.benchmark.tables import as_plain, markdown, report_table
from trimtab.benchmark.tune import tunable_policies, tune
from trimtab.benchmark.tuned import TunedValues
from trimtab.core.errors import RegistryError, SettingsError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.heuristics.oracle import Oracle
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import mean_rate_of
from trimtab.rates.traces import Provenance, RateTrace, save_trace

SHORT: dict[str, Any] = {"hours": 0.1, "mean_cores": 1.0, "applications": ("thumbnails",), "seeds": 3}
"""Six minutes at three requests a second."""


def test_seeds_take_the_traces_in_turn_and_tests_are_of_other_days() -> None:
    suite = ServicesSuite()
    scenario = suite.scenarios()[0]
    sources = [suite.draw(scenario, FIRST_TEST_SEED + turn)[1].provenance.source for turn in range(6)]
    assert sources[:3] == sources[3:]
    assert {*sources} == {"diurnal", "noisy", "bursty"}
    for seed in range(6):
        assert suite.draw(scenario, seed)[1].start_s < 9 * 86_400
        assert suite.draw(scenario, FIRST_TEST_SEED + seed)[1].start_s >= 11 * 86_400


def test_the_caption_names_the_traces_that_are_played() -> None:
    """Seeds take them in turn; the first test seed begins with the second of three."""
    for seeds, told in (
        (2, "0.1 h of noisy and bursty with"),
        (3, "0.1 h of diurnal, noisy and bursty with"),
    ):
        found = compare(ServicesSuite(**{**SHORT, "seeds": seeds}), policies=["static"])
        assert told in caption(found, found.results[0])


def test_a_trace_file_with_few_test_hours_is_told(tmp_path: Any) -> None:
    """Of four days one is for tests, which has room for two episodes of half a day."""
    path = str(tmp_path / "mine.trace")
    save_trace(RateTrace(np.ones(4 * 1440), 60.0, Provenance("mine")), tmp_path / "mine.trace")
    few = ServicesSuite(applications=("thumbnails", "video"), traces=(path,), hours=12, seeds=3)
    (note,) = few.notes()
    assert note.startswith(f"{path} has room for 2 test episodes, which 3 seeds share")
    assert few.model_copy(update={"hours": 8.0}).notes() == []
    assert few.model_copy(update={"traces": (path, "diurnal")}).notes() == []
    assert UnseenSuite(hours=24).notes() == []


def test_as_much_arrives_as_is_asked_for() -> None:
    """Two hours of a wave have about its mean; the work of thumbnails is 292 ms."""
    suite = ServicesSuite(applications=("thumbnails",), traces=("constant",), hours=0.5)
    for cores in (None, 3.0):
        one = suite.model_copy(update={"mean_cores": cores})
        application, trace = one.draw(one.scenarios()[0], FIRST_TEST_SEED)
        assert trace.rates.mean() * application.cpu_s == pytest.approx(cores or 6.0)
    asked = suite.model_copy(update={"mean_rate": 7.0})
    assert asked.draw(asked.scenarios()[0], 0)[1].rates.mean() == pytest.approx(7.0)
    # Many small requests are simulated one by one: 400 a second unless so much is asked for.
    sleep = make_application("sleep")
    assert sleep.cpu_s < 0.01
    assert mean_rate_of(arriving("constant", hours=1), sleep) == 400
    for given, rate in (({"mean_cores": 6.0}, 6 / sleep.cpu_s), ({"most_rate": 500.0}, 500)):
        assert mean_rate_of(arriving("constant", hours=1, **given), sleep) == pytest.approx(rate)
    with pytest.raises(SettingsError, match="mean_cores = 3 and mean_rate = 7 both say how much arrives"):
        arriving("constant", hours=1, mean_cores=3.0, mean_rate=7.0)


def test_a_trace_file_keeps_its_rates_unless_asked(tmp_path: Any) -> None:
    path = tmp_path / "mine.trace"
    save_trace(RateTrace(np.full(14, 5.0), 3600.0, Provenance("mine")), path)
    assert arriving(str(path), hours=1).mean_rate == 5.0
    assert arriving(str(path), hours=1, mean_rate=8).mean_rate == 8.0
    scaled = arriving(str(path), hours=1, mean_cores=2)
    assert (scaled.mean_rate, scaled.mean_cores) == (None, 2.0)
    suite = ServicesSuite(applications=("thumbnails",), traces=(str(path),), hours=1)
    assert suite.draw(suite.scenarios()[0], FIRST_TEST_SEED)[1].rates.tolist() == [5.0]


def test_a_setting_changes_nothing_else() -> None:
    """What a suite has otherwise than deployments usually are stays so."""
    for kind in (ServicesSuite, UnseenSuite):
        assert load_settings(kind, None, {"deployment.history": 20}) == kind()
        changed = load_settings(kind, None, {"deployment": {"objective": {"budget": 0.02}}}).deployment
        assert (changed.most_replicas, changed.objective.budget) == (40, 0.02)


def test_hours_in_which_nothing_arrives(tmp_path: Any) -> None:
    """Eight busy hours of every day."""
    rates = np.tile(np.where(np.arange(24) // 8 == 1, 1.0, 0.0), 14)
    path = tmp_path / "office.trace"
    save_trace(RateTrace(rates, 3600.0, Provenance("office")), path)
    suite = ServicesSuite(
        applications=("thumbnails",), traces=(str(path),), mean_rate=0.02, hours=1, seeds=12
    )
    found = compare(suite, policies=["static", "hpa"])
    silent = sum(not one.arrived.any() for one in found.results[0].episodes["static"])
    assert 0 < silent < 11
    (note,) = [note for note in found.notes if "latency" in note]
    assert note == (
        f"thumbnails: latency_s and latency_p99_s could not be measured in {silent} of 12 episodes of "
        f"static, hpa; the table has those of the other {12 - silent}."
    )
    answered = [one.metrics()["latency_s"] for one in found.results[0].episodes["hpa"]]
    (row,) = [row for row in found.results[0].rows if row.policy == "hpa"]
    known = [value for value in answered if np.isfinite(value)]
    assert row.metrics["latency_s"].value == pytest.approx(np.mean(known))
    assert json.dumps(as_plain(found), allow_nan=False)


def test_services_that_answer_nobody_are_compared_all_the_same(tmp_path: Any) -> None:
    path = tmp_path / "slow.toml"
    path.write_text("timeout_s = 1\nsegments = [{cpu_ms = 10, io_ms = 5000, io_variation = 0.0}]\n")
    suite = ServicesSuite(applications=(str(path),), hours=0.05, mean_rate=2.0, seeds=2)
    found = compare(suite, policies=["static", "hpa"])
    (note,) = [note for note in found.notes if "latency" in note]
    assert note.endswith("in 2 of 2 episodes of static, hpa; the table has none.")
    assert not found.results[0].best.metrics["latency_p99_s"].is_known
    rows = [line.split(" | ") for line in markdown(found).splitlines() if line.startswith("| ")]
    assert [row[5] for row in rows] == ["p99/limit", "---:", "—", "—"]
    assert report_table(found, found.results[0]).rows[0].values[5] is None
    plain = as_plain(found)["scenarios"][0]["policies"][0]
    assert plain["metrics"]["latency_s"] is None
    assert plain["episodes"][0]["latency_s"] is None


def test_services_begin_with_pods_for_twice_their_mean_need() -> None:
    deployment = Deployment()
    inference = make_application("inference")
    six = arriving("diurnal", hours=1)
    assert first_size(inference, six, deployment, factor=2.0).tolist() == [12, 1, 512]
    # Half a core in all: one pod, as few as there may be.
    small = arriving("diurnal", hours=1, mean_cores=0.25)
    assert first_size(inference, small, deployment, factor=2.0)[0] == 1
    assert first_size(inference, arriving("diurnal", hours=1, mean_cores=99), deployment, factor=2.0)[0] == 20
    # 700 MiB when idle, and 80 for the eight requests it works on at a time.
    heavy = inference.model_copy(update={"memory_mib": 700.0})
    assert first_size(heavy, six, deployment, factor=2.0)[2] == 780


def test_the_beginning_is_as_asked_for() -> None:
    suite = ServicesSuite(**SHORT, deployment=Deployment(start_replicas=5, missing=0))
    static = suite.wing.make_policy("static")
    scenario = suite.scenarios()[0]
    (sized,) = suite.play(scenario, [0], [static])[0]
    assert sized.size[0].tolist() == [2, 1, 512]
    plain = suite.model_copy(update={"start_factor": 0.0})
    (started,) = plain.play(scenario, [0], [static])[0]
    assert started.size[0].tolist() == [5, 1, 512]


def test_unseen_services_are_others_in_training_and_in_tests() -> None:
    suite = UnseenSuite()
    scenario = suite.scenarios()[0]
    training = {suite.draw(scenario, seed)[0].name for seed in range(30)}
    tests = {suite.draw(scenario, FIRST_TEST_SEED + seed)[0].name for seed in range(30)}
    assert len(training) == len(tests) == 30
    assert training <= {*application_names("training")}
    assert tests <= {*application_names("test")}
    assert [one.name for one in suite.scenarios()] == ["diurnal", "noisy", "bursty"]


def test_what_a_tuned_value_depends_on() -> None:
    suite = ServicesSuite()
    first, second = suite.scenarios()[:2]
    workload, cluster = scenario_ground(suite, first)
    assert workload["application"] == "textbook"
    assert workload["traces"] == ["diurnal", "noisy", "bursty"]
    assert cluster == {"interval_s": 15, "most_replicas": 40}
    assert scenario_ground(suite, second)[0]["digest"] != workload["digest"]
    changes = ({"hours": 3.0}, {"mean_cores": 9.0}, {"mean_rate": 9.0}, {"most_rate": 9.0})
    for change in (*changes, {"start_factor": 1.0}):
        assert scenario_ground(suite.model_copy(update=change), first)[0] != workload
    unseen = UnseenSuite()
    assert scenario_ground(unseen, unseen.scenarios()[0])[0]["application"] == ""


@pytest.mark.parametrize(
    ("flags", "error", "said"),
    [
        ({"applications": ("thumbnail",)}, RegistryError, "did you mean 'pod/thumbnails'"),
        ({"applications": ("no.toml",)}, WorkloadError, "no.toml"),
        ({"traces": ("burst",)}, RegistryError, "did you mean 'pod/bursty'"),
        ({"traces": ("no.trace",)}, WorkloadError, "no.trace: no such file"),
        ({"traces": ("clarknet-like",), "hours": 0.013}, WorkloadError, "change hours"),
        ({"hours": 1000}, WorkloadError, "lower hours"),
    ],
)
def test_what_cannot_be_played_is_refused_beforehand(
    flags: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        load_settings(ServicesSuite, None, flags).check()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"hours": 0}, "hours = 0"),
        ({"mean_cores": -1}, "mean_cores = -1"),
        ({"deployment.least_cpu": 9}, "least_cpu = 9 is above most_cpu = 4"),
        ({"application": ("web",)}, "did you mean 'applications'"),
    ],
)
def test_bad_settings_name_the_field(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(ServicesSuite, None, flags)


def test_a_comparison_with_one_who_knows_what_comes() -> None:
    """Rules by name and any other policy side by side; everybody meets the same requests."""
    suite = ServicesSuite(**SHORT)
    comparison = compare(suite, policies=["static", "hpa", Oracle()], tuned=TunedValues())
    (result,) = comparison.results
    assert {row.policy for row in result.rows} == {"static", "hpa", "oracle"}
    arrived = {tuple(int(e.arrived.sum()) for e in episodes) for episodes in result.episodes.values()}
    assert len(arrived) == 1
    for episodes in result.episodes.values():
        assert [e.seed for e in episodes] == [FIRST_TEST_SEED + turn for turn in range(3)]
    assert suite.wing.answer(comparison, result).endswith(".")


@pytest.mark.pods
def test_tuning_lowers_the_cost_on_training_seeds() -> None:
    suite = ServicesSuite(**SHORT, training_seeds=2)
    tuning = tune("static", suite, suite.scenarios()[0], suite_name="pod/services")
    assert tuning.best.score <= tuning.usual.score
    found = TunedValues([tuning.entry]).find("static", suite, suite.scenarios()[0])
    assert found is not None and found.values == tuning.best.values
    assert {"hpa", "vpa", "hpa-vpa", "keda", "mpc", "multi"} <= {*tunable_policies(suite.wing)}
