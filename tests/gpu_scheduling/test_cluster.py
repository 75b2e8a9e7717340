"""Clusters by name and by table: what they are made of, and what they refuse."""

import math
from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import RegistryError, SettingsError
from trimtab.core.settings import load_settings
from trimtab.gpu_scheduling import make_policy, make_workload, simulate
from trimtab.gpu_scheduling.cluster import Cluster, GpuType, MachineGroup
from trimtab.gpu_scheduling.workload.clusters import (
    CLUSTERS,
    USUAL_LOAD,
    capacity_gpus,
    described_cluster,
    find_cluster,
    usual_load,
)


def test_every_name_is_described() -> None:
    for name in CLUSTERS:
        assert described_cluster(name)
        assert find_cluster(name).machine_table.gpus.min() >= 1


@pytest.mark.parametrize(("name", "machines"), [("das-small", 8), ("das-medium", 10), ("das-large", 13)])
def test_the_sizes_of_das(name: str, machines: int) -> None:
    """Every fourth machine at 0.7, racks of four, contention 0.15; the same jobs a day on all sizes."""
    cluster = find_cluster(name)
    table = cluster.machine_table
    assert table.gpus.tolist() == [4] * machines
    assert table.speed.tolist() == [0.7 if place % 4 == 3 else 1.0 for place in range(machines)]
    assert table.rack.tolist() == [place // 4 for place in range(machines)]
    assert cluster.contention == 0.15
    assert usual_load(name) * table.gpus.sum() == pytest.approx(USUAL_LOAD * 32)


def test_clusters_of_traces() -> None:
    openb, pai, venus = (find_cluster(name).machine_table for name in ("openb", "pai", "venus"))
    assert (len(openb.names), openb.gpus.sum()) == (1213, 6212)
    assert (len(pai.names), pai.gpus.sum()) == (1814, 6742)
    assert (len(venus.names), venus.gpus.sum()) == (134, 1072)
    by_model = {
        openb.types[kind].name: int(openb.gpus[openb.gpu_type == kind].sum()) for kind in set(openb.gpu_type)
    }
    assert by_model["G2"] == 549 * 8
    assert by_model["T4"] == 387 * 2 + 17 * 4
    # No rack has machines of two kinds, and none has more than four.
    assert np.bincount(openb.rack).max() == 4
    assert usual_load("openb") == USUAL_LOAD


def test_more_gpu_models_than_a_word_has_bits_are_refused() -> None:
    def declared(count: int) -> tuple[GpuType, ...]:
        return tuple(GpuType(name=f"X{place}") for place in range(count))

    most = Cluster(gpu_types=declared(53))
    jobs = make_workload([0], duration_ms=60_000, gpus=1)
    assert simulate(jobs, make_policy("fifo"), most).jct_ms.tolist() == [60_000]
    with pytest.raises(ValueError, match="64 GPU models with the 10 built in; at most 63"):
        Cluster(gpu_types=declared(54))


def test_a_table_may_have_quotation_marks(tmp_path: Path) -> None:
    """As many programs write them; so may a name have a comma."""
    path = tmp_path / "machines.csv"
    path.write_text('"machine","gpus","gpu_type","rack"\n"row 1, box 2", 4,"T4",3\nb,2,"V100",\n')
    table = Cluster(table=str(path)).machine_table
    assert table.names == ("row 1, box 2", "b")
    assert (table.gpus.tolist(), table.rack.tolist(), table.speed.tolist()) == ([4, 2], [3, 0], [0.5, 1.0])


def test_homogeneous_clusters() -> None:
    table = find_cluster("homogeneous:6x2xT4").machine_table
    assert table.gpus.tolist() == [2] * 6
    assert set(table.speed) == {0.5}
    assert table.rack.tolist() == [0, 0, 0, 0, 1, 1]
    assert find_cluster("homogeneous:2x2xG3").machine_table.speed[0] == 2.2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("homogeneous:8", "write machines x GPUs, such as homogeneous:64x8"),
        ("homogeneous:0x4", "1 to 100000 machines of 1 to 64 GPUs"),
        ("homogeneous:4x65", "1 to 100000 machines of 1 to 64 GPUs"),
        ("homogeneous:4x4xH900", "GPU model 'H900' is not known"),
        ("venus:7", "cluster 'venus' has no variants"),
    ],
)
def test_bad_variants(name: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        find_cluster(name)


def test_unknown_clusters() -> None:
    with pytest.raises(RegistryError, match=r"did you mean 'das-small'.*such as 64x8, or the path of a CSV"):
        find_cluster("das-smal")


def test_clusters_by_size_and_table(tmp_path: Path) -> None:
    assert find_cluster("6x2xT4") == find_cluster("homogeneous:6x2xT4")
    table = tmp_path / "mine.csv"
    table.write_text("machine,gpus,gpu_type\na,8,G2\nb,2,T4\n")
    mine = find_cluster(str(table))
    assert mine.machine_table.names == ("a", "b")
    assert capacity_gpus(mine) == pytest.approx(8 * 1.2 + 2 * 0.5)
    assert capacity_gpus(find_cluster("das-medium")) == 40
    with pytest.raises(SettingsError, match=r"no\.csv: cannot be read"):
        _ = find_cluster(str(tmp_path / "no.csv")).machine_table


def test_declared_models_are_known_however_a_cluster_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("machine,gpus,gpu_type\na,8,H900\nb,8,G2\nc,8,T4\n")
    declared = (GpuType(name="H900", speed=3.0), GpuType(name="T4", speed=0.6))
    assert find_cluster("2x8xH900", declared).machine_table.speed.tolist() == [3.0, 3.0]
    assert find_cluster("homogeneous:1x8xH900", declared).machine_table.speed.tolist() == [3.0]
    assert find_cluster(str(tmp_path / "mine.csv"), declared).machine_table.speed.tolist() == [3.0, 1.2, 0.6]
    assert declared[0] in find_cluster("das-small", declared).known_types
    with pytest.raises(SettingsError, match="'H900' is not known; declare it in gpu_types, or use A10, "):
        find_cluster("2x8xH900")


def test_speed_is_that_of_the_model_times_that_of_the_machine() -> None:
    own = GpuType(name="H100", speed=4.0, price=8.0)
    groups = (MachineGroup(gpu_type="H100", speed=0.5), MachineGroup(gpu_type="P100", count=2))
    table = Cluster(machines=groups, gpu_types=(own,)).machine_table
    assert table.speed.tolist() == [2.0, 0.76, 0.76]
    assert table.price.tolist() == [8.0, 1.46, 1.46]
    assert table.names == ("m0", "m1", "m2")


# Dense FP16 operations (tera/s) and memory bandwidth (GB/s) of data sheets.
V100_SHEET = (125, 900)


@pytest.mark.parametrize(
    ("model", "sheet", "speed"),
    [
        ("L4", (121, 300), 0.6),  # sqrt(0.968 * 0.333) = 0.57
        ("L40S", (362, 864), 1.7),  # sqrt(2.896 * 0.96) = 1.67
        ("H100", (989, 3350), 5.4),  # sqrt(7.912 * 3.722) = 5.43
        ("H200", (989, 4800), 6.5),  # sqrt(7.912 * 5.333) = 6.50
    ],
)
def test_newer_models_are_as_fast_as_their_data_sheets_say(model, sheet, speed) -> None:
    arithmetic, bandwidth = (own / of_v100 for own, of_v100 in zip(sheet, V100_SHEET, strict=True))
    assert round(math.sqrt(arithmetic * bandwidth), 1) == speed
    assert find_cluster(f"2x8x{model}").machine_table.speed.tolist() == [speed, speed]


def test_a_known_model_may_be_replaced() -> None:
    cluster = Cluster(gpu_types=(GpuType(name="V100", speed=2.0),))
    assert cluster.machine_table.speed.max() == 2.0
    assert [one.name for one in cluster.known_types].count("V100") == 1


TABLE = "machine,gpus,gpu_type,cpus,memory_gib,rack,speed\na,4,V100,64,256,0,1\n\nb,2,T4,,,1,0.5\n"


def test_a_table_of_machines(tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    path.write_text(TABLE)
    table = Cluster(table=str(path)).machine_table
    assert table.names == ("a", "b")
    assert table.gpus.tolist() == [4, 2]
    assert table.cpu_milli.tolist() == [64_000, 96_000]
    assert table.memory_mib.tolist() == [256 * 1024, 512 * 1024]
    assert table.rack.tolist() == [0, 1]
    assert table.speed.tolist() == [1.0, 0.25]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("machine,gpus\na,4\n", "no column 'gpu_type'"),
        ("", "no column 'machine'"),
        ("machine,gpus,gpu_type\n", "no machines; give at least one line"),
        ("machine,gpus,gpu_type\na,four,V100\n", 'line 2: gpus = "four": should be a valid integer'),
        ("machine,gpus,gpu_type\na,0,V100\n", 'line 2: gpus = "0": .* allowed: integer, >= 1, <= 64'),
        ("machine,gpus,gpu_type\na,65,V100\n", 'line 2: gpus = "65": .* allowed: integer, >= 1, <= 64'),
        ("machine,gpus,gpu_type,speed\na,4,V100,nan\n", 'line 2: speed = "nan": should be a finite number'),
        ("machine,gpus,gpu_type\na,4\n", "line 2: 2 cells where the header has 3; mend the line"),
        ("machine,gpus,gpu_type\na,4,V100,9\n", "line 2: 4 cells where the header has 3; mend the line"),
        ("machine,gpus,gpu_type\na,4,\n", "line 2: nothing in column 'gpu_type'; fill it in"),
        ("machine,gpus,gpu_type,memory_gb\na,4,T4,9\n", "column 'memory_gb' is not known.*memory_gib"),
        ("machine,gpus,gpu_type,gpus\na,4,T4,9\n", "column 'gpus' is not known, or there twice; remove it"),
        ("machine,gpus,gpu_type\na,4,V100\na,4,V100\n", "line 3: machine 'a' .* twice, first in line 2"),
        ("machine,gpus,gpu_type\na,4,H900\n", "line 2: GPU model 'H900' .*; declare it in gpu_types"),
    ],
)
def test_bad_tables(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    path.write_text(text)
    with pytest.raises(SettingsError, match=said) as refusal:
        _ = Cluster(table=str(path)).machine_table
    assert "\n" not in str(refusal.value)


def test_a_missing_table(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.csv: cannot be read"):
        _ = Cluster(table=str(tmp_path / "nowhere.csv")).machine_table


def test_a_table_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    path.write_bytes(b"\xff\xfe\x00machine")
    with pytest.raises(SettingsError, match=r"machines\.csv: is not text; give a CSV of machines"):
        _ = Cluster(table=str(path)).machine_table


def test_unknown_models_and_no_machines_are_refused_at_the_door() -> None:
    with pytest.raises(SettingsError, match="GPU model 'H900' is not known"):
        load_settings(Cluster, None, {"machines": [{"gpu_type": "H900"}]})
    with pytest.raises(SettingsError, match="a cluster without machines"):
        load_settings(Cluster, None, {"machines": []})
