"""Applications by name: 1,000 chains, their parts, their numbers, files, and refusals."""

import gzip
from itertools import product
from pathlib import Path

import pytest

from trimtab.core.errors import RegistryError, WorkloadError
from trimtab.pod_autoscaling.workload.applications import (
    APPLICATIONS,
    BY_HAND,
    LEAK_MIB_PER_HOUR,
    SLO_FACTOR,
    START_S,
    application_names,
    described_application,
    draw_application,
    load_application,
    make_application,
    save_application,
    synthetic_chains,
)
from trimtab.pod_autoscaling.workload.profiles import LOCAL, STORAGE, profile_of


def test_a_thousand_chains_as_aware_has_them() -> None:
    chains = synthetic_chains()
    assert len(set(chains)) == 1000
    assert [sum(len(chain) == length for chain in chains) for length in (1, 2, 3)] == [11, 121, 868]
    assert {function for chain in chains for function in chain} == set(LOCAL)
    assert set(product(LOCAL, repeat=2)) <= set(chains)


def test_they_are_of_the_kind_of_the_released_ones(shared_data: Path) -> None:
    with gzip.open(shared_data / "aware-synthetic-apps" / "generated_functions_1000.txt.gz", "rt") as file:
        released = {tuple(line.strip().split(",")) for line in file}
    assert {function for chain in released for function in chain} == set(LOCAL)
    assert sorted(map(len, released)) == sorted(map(len, synthetic_chains()))


def test_parts_share_no_chain_and_each_has_every_function() -> None:
    parts = [application_names(part) for part in ("training", "validation", "test")]
    assert sum(parts, ()) == application_names("all")
    assert len(parts[0]) >= 300
    chains = synthetic_chains()
    for names in parts:
        own = [chains[int(name.partition(":")[2])] for name in names]
        assert {function for chain in own for function in chain} == set(LOCAL)
        assert {len(chain) for chain in own} >= {2, 3}


@pytest.mark.parametrize("name", [f"synthetic:{number}" for number in range(0, 1000, 83)] + ["storage:3"])
def test_numbers_lie_within_the_functions_ranges(name: str) -> None:
    app = make_application(name)
    profiles = [profile_of(segment.name) for segment in app.segments]
    for segment, profile in zip(app.segments, profiles, strict=True):
        assert profile.cpu_ms[0] <= segment.cpu_ms <= profile.cpu_ms[1]
        assert profile.io_ms[0] <= segment.io_ms <= profile.io_ms[1]
        assert segment.cpu_variation == pytest.approx(profile.cpu_variation, rel=0.41)
    largest = max(profile.memory_mib[1] for profile in profiles)
    assert largest / 2 < app.memory_mib <= largest
    low = min(profile.memory_per_request_mib[0] for profile in profiles)
    assert low <= app.memory_per_request_mib <= max(profile.memory_per_request_mib[1] for profile in profiles)
    assert START_S[0] <= app.start_s <= START_S[1]
    assert SLO_FACTOR[0] <= app.slo_factor <= SLO_FACTOR[1]
    assert app.leak_mib_per_hour <= LEAK_MIB_PER_HOUR[1]
    assert app.timeout_s >= 2 * app.slo_s - 0.01


def test_memory_of_a_request_is_a_mean_over_its_time() -> None:
    """It spends 0.3 s asleep and a few milliseconds with a picture, so it needs what a sleeper needs."""
    app = make_application("sleep+imageRotate")
    assert app.memory_per_request_mib < 3
    assert make_application("imageRotate").memory_per_request_mib >= 4


def test_workers_keep_two_cores_busy_while_others_wait() -> None:
    for name in ("floatOperations", "readFile+writeFile", "sleep+matMul", "sleep"):
        app = make_application(name)
        needed = 2 * app.unloaded_s / app.cpu_s
        assert app.workers >= min(needed / 1.5, 512), name
        assert app.queue >= app.workers // 2


def test_the_same_name_and_seed_give_the_same() -> None:
    assert make_application("synthetic:17") == make_application("pod/synthetic:17")
    first, other = make_application("synthetic:17"), make_application("synthetic:17", seed=1)
    assert [segment.name for segment in first.segments] == [segment.name for segment in other.segments]
    assert first.cpu_s != other.cpu_s
    # These numbers stand in no file; if they moved, every comparison on synthetic applications would.
    drawn = [(segment.name, segment.cpu_ms) for segment in first.segments]
    assert drawn == [("imageCompress", 12.83), ("compress", 3.046), ("compress", 2.389)]
    assert (first.start_s, first.slo_factor) == (4.543, 3.846)


def test_chains_with_storage_are_outside_the_thousand() -> None:
    seen = {tuple(segment.name for segment in make_application(f"storage:{n}").segments) for n in range(200)}
    assert len(seen) == 200
    assert all(set(chain) & set(STORAGE) for chain in seen)
    assert not seen & set(synthetic_chains())


@pytest.mark.parametrize("name", BY_HAND)
def test_those_by_hand_are_whole_and_their_limit_is_possible(name: str) -> None:
    app = make_application(name)
    assert app == make_application(name, seed=5)
    assert app.slo_s > app.unloaded_p99_s
    assert described_application(f"pod/{name}")
    # As many requests as a pod takes in fit into 512 MiB, the size that pods start with.
    assert app.memory_mib + app.cache_mib + app.memory_per_request_mib * (app.workers + app.queue) <= 1300


def test_every_name_is_described() -> None:
    assert len(APPLICATIONS) == 7
    assert all(described_application(name) for name in APPLICATIONS)


def test_a_profile_is_read_back_and_may_be_edited(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    app = make_application("synthetic:500")
    save_application(app, path)
    assert load_application(path) == app
    assert make_application(str(path)) == app
    assert [one.name for one in tmp_path.iterdir()] == ["mine.toml"]
    path.write_text(path.read_text().replace("start_s = ", "start_s = 1e9 #"))
    with pytest.raises(WorkloadError, match=r"mine\.toml: start_s = 1000000000\.0: should be less than"):
        make_application(str(path))
    path.write_text("segments = []\n")
    with pytest.raises(WorkloadError, match="segments"):
        load_application(path)
    with pytest.raises(WorkloadError, match=r"no such settings file.*fit-profile"):
        load_application(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("synthetic:1000", "give a number from 0 to 999"),
        ("synthetic", "give a number from 0 to 999"),
        ("storage:x", "give a number from 0 to 199"),
        ("textbook:2", "has no variants, but '2'"),
        ("sleep+sleeep", "no function 'sleeep'"),
        ("sleep+sleep+sleep+sleep", "4 functions; a request passes through 1 to 3"),
    ],
)
def test_names_that_cannot_be(name: str, said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        make_application(name)


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(RegistryError, match=r"did you mean 'pod/textbook'.*path of a profile"):
        make_application("textbok")


def test_a_chain_needs_a_function() -> None:
    with pytest.raises(WorkloadError, match="0 functions"):
        draw_application("none", [], seed=0)
