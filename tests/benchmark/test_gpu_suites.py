"""The suites of GPU scheduling: one stream for three sizes, one tier each; and a comparison for real."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.benchmark.compare import compare, line_up
from trimtab.benchmark.gpu_scheduling.suites import (
    DasLargeSuite,
    DasMediumSuite,
    DasSmallSuite,
    OracleSmallSuite,
    PredictedSmallSuite,
)
from trimtab.benchmark.gpu_scheduling.wing import GPU, scenario_ground
from trimtab.benchmark.suite import FIRST_TEST_SEED, SUITES
from trimtab.benchmark.tune import tune
from trimtab.benchmark.tuned import TunedValues, shipped_tuned_values
from trimtab.core.errors import RegistryError, SettingsError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.simulator.simulator import NeverEnds
from trimtab.gpu_scheduling.workload import make_workload, save_workload

SIZES = (DasSmallSuite, DasMediumSuite, DasLargeSuite)


def small(kind: Any = DasSmallSuite, **changes: Any) -> Any:
    return load_settings(kind, None, {"workload.jobs": 25, "seeds": 3, "training_seeds": 2, **changes})


def test_the_same_jobs_come_to_all_three_sizes() -> None:
    streams = [kind.usual().draw(kind.usual().scenarios()[0], FIRST_TEST_SEED) for kind in SIZES]  # type: ignore[attr-defined]
    for stream in streams[1:]:
        assert np.array_equal(stream.duration_ms, streams[0].duration_ms)
        assert abs(stream.arrival_ms - streams[0].arrival_ms).max() <= 1
    assert (streams[0].gpus <= 16).all() and (streams[0].duration_ms >= 60_000).all()
    machines = [len(kind.usual().cluster.machine_table.names) for kind in SIZES]  # type: ignore[attr-defined]
    assert machines == [8, 10, 13]


def test_the_rate_is_three_quarters_of_32_gpus() -> None:
    suite: Any = DasSmallSuite.usual()
    gap_ms = float(suite.draw(suite.scenarios()[0], 0).provenance.settings["mean_gap_ms"])
    many = suite.model_copy(update={"workload": suite.workload.model_copy(update={"jobs": 20_000})})
    drawn = many.draw(many.scenarios()[0], 0)
    assert drawn.gpu_ms.mean() / gap_ms / 32 == pytest.approx(0.76, rel=0.1)


def test_single_fields_are_laid_over_the_suites_own() -> None:
    changed = small(DasMediumSuite, **{"cluster.noise": 0.1, "workload.name": "philly-like"})
    assert (changed.cluster.noise, changed.workload.load) == (0.1, pytest.approx(0.608))
    assert len(changed.cluster.machine_table.names) == 10
    batch = small(**{"workload.arrivals": "batch"})
    assert batch.workload.load is None
    assert small(**{"workload.mean_gap_s": 60.0}).workload.load is None
    assert len(small(cluster="16x8").cluster.machine_table.names) == 16
    assert small(PredictedSmallSuite, cluster="16x8").cluster.information == "predicted"
    given = DasSmallSuite.model_validate({"cluster": Cluster(), "workload": changed.workload})
    assert given.cluster == Cluster()


def test_every_suite_has_one_tier_and_its_policies_may_play() -> None:
    tiers = {}
    for name in ("das-small", "das-medium", "das-large", "predicted-small", "oracle-small"):
        suite: Any = SUITES.load(f"gpu/{name}").usual()
        suite.check()
        tiers[name] = suite.cluster.information
        assert all(suite.admits(make_policy(policy.removesuffix(":tuned"))) for policy in suite.policies)
    assert list(tiers.values()) == ["none", "none", "none", "predicted", "oracle"]


def test_policies_of_another_tier_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"'sjf\+fast:tuned' needs durations.*--information predicted"):
        small(policies=("fifo", "sjf+fast:tuned")).check()
    small(OracleSmallSuite, policies=("fifo", "sjf+fast:tuned")).check()
    assert not DasSmallSuite.usual().admits(make_policy("fifo+fast+easy"))


def test_seeds_that_share_the_jobs_of_a_trace_are_told() -> None:
    """Of five jobs the last two are for tests."""
    trace = {"name": "tiny:gang", "arrivals": "trace", "shortest_s": 0, "jobs": 1}
    (shared,) = load_settings(DasSmallSuite, None, {"workload": trace, "seeds": 3}).notes()
    assert shared.startswith("tiny:gang has room for 2 test episodes, which 3 seeds share")
    assert load_settings(DasSmallSuite, None, {"workload": trace, "seeds": 2}).notes() == []
    assert DasSmallSuite.usual().notes() == []


def test_jobs_of_a_file_that_are_left_out_are_told(tmp_path: Path) -> None:
    path = tmp_path / "my.workload"
    jobs = make_workload(range(0, 40_000, 1000), duration_ms=[60_000] * 40, gpus=[1, 2, 4, 64] * 10)
    save_workload(jobs, path)
    workload = {"name": str(path), "jobs": 5, "shortest_s": 0}
    told = f"{path}: 10 of 40 jobs with more than 32 GPUs are left out."
    assert load_settings(DasSmallSuite, None, {"workload": workload | {"most_gpus": 32}}).notes() == [told]
    assert load_settings(DasSmallSuite, None, {"workload": workload | {"most_gpus": 64}}).notes() == []


def test_unknown_grounds_are_refused() -> None:
    with pytest.raises(RegistryError, match="did you mean"):
        small(**{"workload.name": "pia"}).check()
    with pytest.raises(RegistryError, match="das-smal"):
        small(cluster="das-smal")


def test_jobs_that_no_machine_can_hold_are_refused_before_anything_is_played(tmp_path: Path) -> None:
    jobs = make_workload(range(10), duration_ms=60_000, gpu_milli=[1000] * 9 + [8000])
    save_workload(jobs, tmp_path / "mine.workload")
    mine = {"workload.name": str(tmp_path / "mine.workload")}
    with pytest.raises(WorkloadError, match="job 9 needs 8 GPUs on one machine, and the largest has 4"):
        small(**mine).check()
    small(**mine, **{"workload.most_gpus": 4}).check()
    small(**mine, cluster="2x8").check()


def test_a_comparison_pairs_all_policies_on_the_same_jobs() -> None:
    suite = small(policies=("fifo+first-fit+strict", "fifo", "smallest+fast"))
    comparison = compare(suite, name="small")
    (result,) = comparison.results
    assert comparison.baseline == "fifo"
    arrivals = {name: [one.arrival_ms.tolist() for one in played] for name, played in result.episodes.items()}
    assert arrivals["fifo"] == arrivals["smallest+fast"] == arrivals["fifo+first-fit+strict"]
    assert GPU.answer(comparison, result).endswith(".")
    caption = GPU.caption(comparison, result)
    assert "25 pai jobs, poisson arrivals at load 0.76, 8 machines with 32 GPUs" in caption
    assert "nothing known of durations" in caption
    headings = [column.heading for column in GPU.columns(comparison)]
    assert headings[:2] == ["mean JCT, min", "× fifo"]


def test_a_tuned_value_belongs_to_its_ground() -> None:
    suite = small()
    found = tune("smallest+fast", suite, suite.scenarios()[0])
    assert found.best.score <= found.usual.score
    known = TunedValues([found.entry])
    assert known.find("smallest+fast", suite, suite.scenarios()[0]) is found.entry
    for other in (small(**{"cluster.noise": 0.1}), small(DasLargeSuite), small(OracleSmallSuite)):
        assert known.find("smallest+fast", other, other.scenarios()[0]) is None


def test_a_file_of_other_jobs_or_machines_is_another_ground(tmp_path: Path) -> None:
    table, jobs = tmp_path / "mine.csv", tmp_path / "mine.workload"
    grounds = []
    for gpus in (4, 8):
        table.write_text(f"machine,gpus,gpu_type\na,{gpus},V100\n")
        save_workload(make_workload([0, 1, 2, 3], duration_ms=[90_000] * 4, gpus=[gpus // 2] * 4), jobs)
        named = Cluster(table=str(table), noise=0.1 / gpus)  # another noise: tables are read once
        suite = small(**{"workload.name": str(jobs), "cluster": named.model_dump(exclude_defaults=True)})
        grounds.append(scenario_ground(suite, suite.scenarios()[0]))
    (one, first), (two, second) = grounds
    assert one["digest"] != two["digest"] and first["table"] != second["table"]
    assert str(tmp_path) not in str(first)


@pytest.mark.parametrize("kind", SIZES)
def test_tuned_rules_of_a_suite_are_shipped_with_their_settings(kind: Any) -> None:
    suite, known = kind.usual(), shipped_tuned_values()
    tuned = [name.removesuffix(":tuned") for name in suite.policies if name.endswith(":tuned")]
    assert {"smallest+fast", "las+fast"} <= set(tuned)
    for name in tuned:
        entry = known.find(name, suite, suite.scenarios()[0])
        assert entry is not None and entry.training_seeds >= suite.training_seeds, name
    contestants, notes = line_up(suite, ["fifo", "smallest+fast:tuned"], known)
    assert [one.label for one in contestants] == ["fifo", "smallest+fast (tuned)"] and not notes
    # With other jobs they are not: the usual settings play, and a note says so.
    contestants, (note,) = line_up(small(kind), ["fifo", "smallest+fast:tuned"], known)
    assert contestants[1].label == "smallest+fast" and "trimtab tune" in note


def taking_turns(tmp_path: Path, **changes: Any) -> Any:
    """Two equal jobs of ten minutes on one GPU; who is stopped loses seven minutes of work.

    Least attained service with no margin stops whoever has run for `min_run_s`, usually five minutes.
    """
    jobs = make_workload([0] * 10, duration_ms=600_000, gpus=1)
    save_workload(jobs, tmp_path / "turns.workload")
    told = {
        "workload.name": str(tmp_path / "turns.workload"),
        "workload.jobs": 2,
        "workload.arrivals": "batch",
        "cluster.machines": [{"gpus": 1}],
        "cluster.checkpoint_s": 420.0,
    }
    return small(**told, **changes)


def test_a_comparison_says_who_displaces_jobs_for_ever(tmp_path: Path) -> None:
    for_ever = "las:margin=0,min_run_s=1"
    suite = taking_turns(tmp_path, policies=("fifo", for_ever))
    with pytest.raises(
        NeverEnds, match=f"{for_ever}, seed {FIRST_TEST_SEED}: .* displace each other"
    ) as told:
        compare(suite)
    assert "\n" not in str(told.value)
    assert compare(suite, policies=["fifo", "las:margin=0,min_run_s=600"]).results


def test_settings_without_an_end_are_the_worst_in_tuning(tmp_path: Path) -> None:
    suite = taking_turns(tmp_path)
    scenario = suite.scenarios()[0]
    ((ended,), (endless,)) = suite.play(
        scenario, [0], [make_policy("fifo"), make_policy("las:margin=0,min_run_s=1")]
    )
    # Ten minutes and twenty.
    assert ended.metrics()["mean_jct_min"] == 15.0
    assert endless.metrics() == dict.fromkeys(ended.metrics(), np.inf)
    found = tune("las", suite, scenario)
    assert found.trials[-1].score == np.inf
    assert found.best.score == 15.0
