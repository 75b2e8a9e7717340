from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.benchmark.dag_scheduling.suites import (
    BatchSuite,
    MultiResourceStreamSuite,
    MultiResourceSuite,
    StreamSuite,
    four_classes,
)
from trimtab.benchmark.suite import FIRST_TEST_SEED, SUITES
from trimtab.core.errors import SettingsError
from trimtab.core.settings import load_settings, settings_as_toml
from trimtab.dag_scheduling.workload import (
    JobRecord,
    StageRecord,
    batch,
    build_profile,
    save_workload,
)


@pytest.mark.parametrize("name", SUITES.names())
def test_every_suite_reads_itself_back(name: str, tmp_path: Path) -> None:
    suite = SUITES.load(name).usual()
    path = tmp_path / "suite.toml"
    path.write_text(settings_as_toml(suite))
    assert load_settings(SUITES.load(name), path) == suite


@pytest.mark.parametrize("name", SUITES.names())
def test_every_policy_of_a_suite_exists(name: str) -> None:
    suite = SUITES.load(name).usual()
    for policy in suite.policies:
        suite.wing.make_policy(policy.removesuffix(":tuned"))


@pytest.mark.parametrize("name", SUITES.names())
def test_test_seeds_are_never_training_seeds(name: str) -> None:
    kind = SUITES.load(name)
    for seed in (0, 1, 1_000_000):
        suite = kind(seed=seed, seeds=100_000, training_seeds=FIRST_TEST_SEED)
        assert suite.test_seeds()[0] > suite.tuning_seeds()[-1]
    assert kind(seed=0).test_seeds()[-1] < kind(seed=1).test_seeds()[0]


def test_the_published_settings() -> None:
    batch = BatchSuite()
    assert (batch.workload.jobs, batch.workload.name, batch.cluster.executors) == (20, "tpch", 50)
    stream = StreamSuite()
    assert stream.workload.jobs == 200
    assert [scenario.load for scenario in stream.scenarios()] == [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    multi = MultiResourceSuite()
    assert multi.cluster.class_counts == (12, 12, 13, 13)
    assert multi.cluster.class_memory == (0.25, 0.5, 0.75, 1.0)
    assert multi.workload.random_memory
    stream = MultiResourceStreamSuite()
    assert stream.cluster == multi.cluster
    assert [scenario.load for scenario in stream.scenarios()] == [0.5, 0.7, 0.85, 0.95]
    assert (stream.workload.jobs, stream.workload.arrivals) == (200, "poisson")
    assert stream.workload.random_memory


@pytest.mark.parametrize(
    ("jobs", "seeds", "said"), [(2, 50, "1 test episode"), (1, 50, "2 test"), (1, 2, "")]
)
def test_seeds_that_share_the_jobs_of_a_trace_are_told(
    tmp_path: Path, jobs: int, seeds: int, said: str
) -> None:
    """Of five jobs the last two are for tests; batches are drawn anew for every seed."""
    path = tmp_path / "my.workload"
    profile = build_profile([JobRecord("one", [StageRecord(tasks=1, later_wave={1: [100]})])])
    save_workload(batch(profile, jobs=5, seed=0), path)
    workload = {"name": str(path), "jobs": jobs}
    suite = load_settings(BatchSuite, None, {"workload": {**workload, "arrivals": "trace"}, "seeds": seeds})
    assert len(suite.notes()) == bool(said)
    assert said in "".join(suite.notes())
    assert load_settings(BatchSuite, None, {"workload": workload, "seeds": seeds}).notes() == []


def test_four_classes_add_up() -> None:
    for executors in (4, 7, 50, 101):
        classes = four_classes(executors)
        assert sum(c.count for c in classes) == executors
        assert max(c.count for c in classes) - min(c.count for c in classes) <= 1


def test_single_fields_change_without_losing_the_others() -> None:
    stream = load_settings(StreamSuite, None, {"workload.jobs": 10})
    assert (stream.workload.jobs, stream.workload.arrivals) == (10, "poisson")
    gap = load_settings(StreamSuite, None, {"workload.mean_gap_s": 25.0, "loads": ()})
    assert (gap.workload.load, gap.scenarios()[0].name) == (None, "")
    batch = load_settings(StreamSuite, None, {"workload.arrivals": "batch", "loads": ()})
    assert batch.workload.load is None
    for kind in (MultiResourceSuite, MultiResourceStreamSuite):
        multi = load_settings(kind, None, {"cluster.executors": 20, "workload.jobs": 10})
        assert multi.cluster.class_counts == (5, 5, 5, 5)
        assert multi.workload.random_memory
        assert multi.workload.jobs == 10
    gap = load_settings(MultiResourceStreamSuite, None, {"workload.mean_gap_s": 25.0, "loads": ()})
    assert (gap.workload.load, gap.workload.random_memory) == (None, True)


def test_a_file_keeps_its_memory_demands(tmp_path: Path) -> None:
    path, bare = str(tmp_path / "my.workload"), str(tmp_path / "bare.workload")
    stage = StageRecord(tasks=1, later_wave={1: [100]})
    for name, memory in ((path, 0.3), (bare, 0.0)):
        profile = build_profile([JobRecord("one", [replace(stage, memory=memory)])])
        save_workload(batch(profile, jobs=2, seed=0), Path(name))
    kept = load_settings(MultiResourceSuite, None, {"workload.name": path})
    (scenario,) = kept.scenarios()
    assert kept.draw(scenario, FIRST_TEST_SEED).profile.memory.tolist() == [0.3]
    assert load_settings(MultiResourceSuite, None, {"workload.name": bare}).workload.random_memory
    drawn = load_settings(MultiResourceSuite, None, {"workload.name": path, "workload.random_memory": True})
    assert drawn.workload.random_memory
    (tmp_path / "suite.toml").write_text(settings_as_toml(drawn))
    assert load_settings(MultiResourceSuite, tmp_path / "suite.toml") == drawn


@pytest.mark.parametrize(
    ("kind", "flags", "said"),
    [
        (BatchSuite, {"loads": (0.5,)}, "loads sweep a stream"),
        (StreamSuite, {"loads": (0.5, 7.0)}, "a load of 7"),
        (BatchSuite, {"seeds": 1}, "seeds = 1"),
        (BatchSuite, {"policies": ()}, "policies"),
        (BatchSuite, {"cluster.executors": 0}, "cluster.executors = 0"),
        (BatchSuite, {"seds": 3}, "did you mean 'seeds'?"),
        (BatchSuite, {"workload.arrivls": "batch"}, "did you mean 'arrivals'?"),
        (MultiResourceSuite, {"cluster.executors": 2.5}, "cluster.executors"),
    ],
)
def test_bad_settings_name_the_field(kind: type[BatchSuite], flags: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(kind, None, flags)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
