"""Training runs of the network agents: presets, refusals, the score, and one run from flags to a policy."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.cli.main import main
from trimtab.cli.trainers import trainer_of
from trimtab.core.bundle import load_bundle
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.settings import settings_as_toml
from trimtab.gpu_scheduling.das import network_training
from trimtab.gpu_scheduling.das.network import new_network
from trimtab.gpu_scheduling.das.network_policy import network_bundle, network_policy
from trimtab.gpu_scheduling.das.network_task import (
    PRESETS,
    NetworkSettings,
    NetworkTask,
    check_settings,
    load_preset,
    preset_names,
)
from trimtab.gpu_scheduling.das.rollouts import TRAINING_SEEDS
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload.clusters import find_cluster

SMALLEST = """
# The smallest networks that train.
clusters = ["das-small"]
environments = 4
lanes = 1
rollouts = 2
validation = 2
workload = { jobs = 30 }

[design]
window = 8
width = 8
layers = 0
heads = 2
process = false

[training]
iterations = 1
imitation_iterations = 1
horizon = 4
epochs = 1
minibatches = 2
anchor = 0.1
reset_every = 1
validate_every = 1
checkpoint_every = 1
"""


def smallest(tmp_path: Path, **changes: Any) -> NetworkSettings:
    path = tmp_path / "smallest.toml"
    path.write_text(SMALLEST)
    return load_preset(str(path), changes)


# --- presets and refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_can_be_trained_and_read_back(name: str, tmp_path: Path) -> None:
    settings = load_preset(name)
    check_settings(settings)
    assert PRESETS.sentence(name).endswith(".")
    (tmp_path / "again.toml").write_text(settings_as_toml(settings))
    assert load_preset(str(tmp_path / "again.toml")) == settings


def test_the_published_parts_are_presets() -> None:
    designs = {name: load_preset(name).design for name in preset_names() if name.startswith("das-paper")}
    assert {name: (one.communicate, one.process) for name, one in designs.items()} == {
        "das-paper": (True, True),
        "das-paper-da": (False, False),
        "das-paper-mc": (True, False),
        "das-paper-rwgp": (False, True),
    }
    assert {one.actions for one in designs.values()} == {"scores"}
    ours = load_preset("das-network")
    assert (ours.design.actions, ours.training.baseline) == ("choices", "same_sequence")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"teacher": "", "training.anchor": 0.5}, "need a teacher; name one"),
        ({"teacher": "nonsense"}, "teacher = 'nonsense': .*no order 'nonsense'"),
        ({"teacher": "las+fast"}, "stops running jobs"),
        ({"design.actions": "scores"}, "a rule makes choices, not scores"),
        ({"reward": "paper"}, "reward = paper counts whole rounds"),
        ({"rule": "sjf+fast"}, "needs durations"),
        ({"rule": "malo"}, "is no rule"),
        (
            {"environments": 6, "rollouts": 4},
            "environments = 6 cannot be split into groups of 4 on each of 1",
        ),
        ({"training.minibatches": 5}, "minibatches = 5 does not divide"),
        ({"clusters": ["das-tiny"]}, "das-tiny"),
        ({"gpu_types": [{"name": "V100", "price": 0.0}]}, "GPU model 'V100' of .* costs nothing"),
        ({"worlds": ["pai:x"]}, "the variant is a seed"),
        ({"training.baseline": "multi_value", "training.anchor": 0.1}, "needs numbered workloads"),
    ],
)
def test_what_cannot_work_is_refused_early(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(TrimtabError, match=said):
        check_settings(smallest(tmp_path, **changes))


def test_loads_are_in_order() -> None:
    with pytest.raises(ValueError, match="give the least factor first"):
        NetworkSettings(loads=(1.2, 0.8))


# --- which trainer is meant ----------------------------------------------------------------------------


def test_presets_of_both_kinds_of_agents_stand_in_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "gpu", "--presets", "--json"]) == 0
    names = [entry["name"] for entry in json.loads(capsys.readouterr().out)]
    assert {"das", "das-gang", *preset_names()} <= set(names)
    assert main(["train", "gpu", "--preset", "das-netwrok"]) != 0
    assert "no preset 'das-netwrok'; there are das, das-gang, das-network" in capsys.readouterr().err


def test_name_file_and_run_say_which_agents_are_meant(tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(SMALLEST)
    (tmp_path / "compact.toml").write_text("preemptive = true\n")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / network_training.ASKED_FOR).write_text(SMALLEST)
    for preset, kind in (
        ("das-paper", "NetworkSettings"),
        ("das", "DasSettings"),
        (str(tmp_path / "network.toml"), "NetworkSettings"),
        (str(tmp_path / "compact.toml"), "DasSettings"),
    ):
        trainer = trainer_of("gpu", preset=preset)
        assert trainer.settings.__name__ == kind
        assert isinstance(trainer.presets.load(preset), trainer.settings)
    assert trainer_of("gpu").settings.__name__ == "DasSettings"
    assert trainer_of("gpu", resume=tmp_path / "begun").settings.__name__ == "NetworkSettings"
    assert trainer_of("gpu", resume=tmp_path).settings.__name__ == "DasSettings"


def test_a_workload_of_ones_own_takes_the_place_of_all() -> None:
    trainer = trainer_of("gpu", preset="das-network")
    plain = load_preset("das-network").model_dump(mode="json")
    written = trainer.put_flags(plain, {"workload": "philly-like"})
    assert written == {"workload.name": "--workload philly-like"}
    assert (plain["workload"]["name"], plain["worlds"]) == ("philly-like", [])
    asked = NetworkSettings.model_validate(plain)
    assert all("--workload philly-like" in one for one in trainer.judge(asked, Path("runs/mine")))


# --- workloads and the score ---------------------------------------------------------------------------


def test_workloads_vary_in_world_and_load_by_their_seed(tmp_path: Path) -> None:
    asked = smallest(tmp_path, worlds=["pai:1", "pai:2"], loads=[0.5, 2.0], **{"workload.jobs": 50})
    drawn = [NetworkTask(asked).course("das-small").draw(seed) for seed in range(20)]
    gaps = [float(one.provenance.settings["mean_gap_ms"]) for one in drawn]  # pyright: ignore[reportArgumentType]
    assert max(gaps) > 2 * min(gaps)
    assert {one.provenance.settings["world"] for one in drawn} == {0, 1, 2}
    again = NetworkTask(asked).course("das-small").draw(7)
    assert (again.arrival_ms == drawn[7].arrival_ms).all()


def test_the_score_is_that_of_the_bundle_played_by_the_simulator(tmp_path: Path) -> None:
    """Networks nobody trained: completion time and fee over the rule's, on validation workloads."""
    settings = smallest(tmp_path, fee_weight=0.5)
    task = NetworkTask(settings)
    parameters = new_network(settings.design, 5)
    ratios = task.validation_ratios(parameters)
    assert (ratios == task.validation_ratios(parameters)).all()
    policy = network_policy(network_bundle("fresh", parameters, settings.design, trained={}, scores={}))
    where = task.course("das-small")
    for place, ratio in enumerate(ratios):
        seed = TRAINING_SEEDS + place
        ours = simulate(where.draw(seed), policy, where.cluster, seed=seed)
        rule = simulate(where.draw(seed), task.rule, where.cluster, seed=seed)
        wanted = [ours.jct_ms.mean() / rule.jct_ms.mean(), ours.fee.mean() / rule.fee.mean()]
        assert ratio == pytest.approx(wanted, rel=1e-9)
    score = task.score(parameters)
    assert score["score"] == pytest.approx(np.exp((np.log(ratios) @ [1.0, 0.5]).mean()))
    assert score["completion time on das-small"] == pytest.approx(np.exp(np.log(ratios[:, 0]).mean()))


def test_a_bundle_of_another_network_is_no_beginning(tmp_path: Path) -> None:
    settings = smallest(tmp_path)
    wider = settings.design.model_copy(update={"width": 16})
    bundle = network_bundle("wide", new_network(wider, 0), wider, trained={}, scores={})
    with pytest.raises(SettingsError, match=r"wide has another network \(width = 16\) than asked for"):
        NetworkTask(settings, start=bundle)


# --- a run ---------------------------------------------------------------------------------------------


ALONE = ('teacher=""', "training.anchor=0", "training.imitation_iterations=0")
RUNS = {
    "choices": (),
    "scores": ('design.actions="scores"', 'reward="paper"', *ALONE),
    "against each other": (
        "rollouts=2",
        'training.baseline="same_sequence"',
        "training.reset_every=1",
        "training.mean_episode_s=1200",
        *ALONE,
    ),
}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS)
def test_a_run_leaves_a_policy_that_plays(changes: tuple[str, ...], tmp_path: Path) -> None:
    preset, folder = tmp_path / "smallest.toml", tmp_path / "run"
    preset.write_text(SMALLEST)
    words = ["--preset", str(preset), "--out", str(folder), "--workload", "pai:3", "--json"]
    for change in changes:
        words += ["--set", change]
    said = io.StringIO()
    with redirect_stdout(said):
        assert main(["train", "gpu", *words]) == 0
    told = json.loads(said.getvalue())
    assert told["finished"]
    assert told["score"] > 0.5
    bundle = load_bundle(folder / "bundle")
    assert bundle.kind == "das-network"
    assert bundle.manifest["trained"]["workloads"] == ["pai:3 on das-small"]
    where = NetworkTask(smallest(tmp_path)).course("das-small")
    episode = simulate(where.draw(1), network_policy(bundle), find_cluster("das-small"), seed=1)
    assert episode.jct_ms.min() > 0
    said = io.StringIO()
    with redirect_stdout(said):
        assert main(["train", "gpu", "--resume", str(folder), "--json"]) == 0
    assert json.loads(said.getvalue())["score"] == told["score"]
