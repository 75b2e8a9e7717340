"""Train autoscalers of services."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.cli.trainers import Trainer

__all__ = ["pod_trainer"]


def pod_trainer() -> Trainer:
    from trimtab.pod_autoscaling.aware import task, training
    from trimtab.pod_autoscaling.policies import find_bundle

    return Trainer(
        wing="pod",
        presets=task.PRESETS,
        usual_preset="aware",
        settings=task.AwareSettings,
        asked_for=training.ASKED_FOR,
        score_name=training.SCORE,
        score_words="of its rule's cost on validation services",
        flags=("app", "trace", "mean-rate"),
        put_flags=_put_app_and_trace,
        check=_check_pod,
        train=training.train_aware,
        save_bundle_of_run=training.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_pod,
        seed_field="seed",
    )


def _put_app_and_trace(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    from trimtab.core.errors import SettingsError

    written = {}
    for flag, field in (("app", "applications"), ("trace", "traces")):
        if flag in flags:
            names = [name.strip() for name in flags[flag].split(",") if name.strip()]
            said = f"--{flag} {shlex.quote(flags[flag])}"
            if not names:  # no applications in a file mean services that are drawn
                raise SettingsError(f"{said}: names nothing; leave it out, or name one")
            plain["ground"][field], written[f"ground.{field}"] = names, said
    if "mean-rate" in flags:
        plain["ground"]["mean_rate"] = float(flags["mean-rate"])
        written["ground.mean_rate"] = f"--mean-rate {flags['mean-rate']}"
    return written


def _check_pod(asked: Any) -> None:
    from trimtab.pod_autoscaling.aware.task import check_settings

    check_settings(asked)


def _judge_pod(asked: Any, folder: Path) -> list[str]:
    """Named services against the rules that were tuned for them, or services that nobody has seen."""
    from trimtab.pod_autoscaling.workload.presets import own_rate_of

    ground = asked.ground
    words = ["trimtab", "compare", "pod/services" if ground.applications else "pod/unseen"]
    if ground.applications:
        words += ["--app", ",".join(ground.applications)]
    if ground.applications or any(own_rate_of(name) is not None for name in ground.traces):
        words += ["--trace", ",".join(ground.traces)]
    if ground.mean_rate is not None:
        words += ["--mean-rate", f"{ground.mean_rate:g}"]
    return [shlex.join([*words, "--policies", f"hpa:target=70,hpa-vpa,mpc,multi,{folder}"])]
