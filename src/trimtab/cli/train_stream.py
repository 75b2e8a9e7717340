"""Train autoscalers of streaming jobs: networks, and the compact autoscaler."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.cli.trainers import Asked, Families, Trainer

__all__ = ["stream_trainer"]


def stream_trainer(preset: str | None, resume: Path | None) -> Trainer:
    """The kind of training that the preset, or the run to go on with, is of."""
    return _stream_compact() if _asks_for_compact_stream(preset, resume) else _stream()


def _stream() -> Trainer:
    from trimtab.stream_autoscaling.policies import find_bundle
    from trimtab.stream_autoscaling.sure import compact_task, task, training

    return Trainer(
        wing="stream",
        presets=Families((task.PRESETS, compact_task.PRESETS)),
        usual_preset="sure",
        settings=task.SureSettings,
        asked_for=training.ASKED_FOR,
        score_name=training.SCORE,
        score_words="more than its teacher's cost per interval, on validation days (below 0 is better)",
        flags=("job", "trace", "mean-rate"),
        put_flags=_put_job_and_trace,
        check=_check_stream,
        train=training.train_sure,
        save_bundle_of_run=training.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_stream,
        lessons_words="lessons for jobs of each size",
    )


def _stream_compact() -> Trainer:
    from trimtab.stream_autoscaling.policies import find_bundle
    from trimtab.stream_autoscaling.sure import compact_task, task
    from trimtab.stream_autoscaling.sure.compact_training import COMPACT

    return Trainer(
        wing="stream",
        presets=Families((compact_task.PRESETS, task.PRESETS)),
        usual_preset="sure-compact",
        settings=compact_task.CompactSettings,
        asked_for=COMPACT.asked_for,
        score_name=COMPACT.score,
        score_words="of its rule's cost on validation days",
        flags=("job", "trace", "mean-rate"),
        put_flags=_put_course,
        check=compact_task.check_settings,
        train=COMPACT.train,
        save_bundle_of_run=COMPACT.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_compact_stream,
    )


def _asks_for_compact_stream(preset: str | None, resume: Path | None) -> bool:
    """Whether the compact autoscaler is meant, not the network."""
    from trimtab.stream_autoscaling.sure import compact_task, task
    from trimtab.stream_autoscaling.sure.compact_training import COMPACT

    compact = Asked(compact_task.PRESETS, COMPACT.asked_for, compact_task.CompactSettings)
    return compact.meant(preset, resume, otherwise=task.SureSettings)


def _put_course(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    """Own jobs or days take the place of all courses but the first."""
    if not flags:
        return {}
    plain["courses"] = plain["courses"][:1]
    written = _put_job_and_trace(plain["courses"][0], flags)
    return {f"courses.0.{field}": flag for field, flag in written.items()}


def _put_job_and_trace(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    written = {}
    if "job" in flags:
        plain["jobs"] = [name.strip() for name in flags["job"].split(",") if name.strip()]
        written["jobs"] = f"--job {shlex.quote(flags['job'])}"
    if "trace" in flags:
        plain["trace"]["name"] = flags["trace"]
        written["trace.name"] = f"--trace {shlex.quote(flags['trace'])}"
    if "mean-rate" in flags:
        plain["trace"]["mean_rate"] = float(flags["mean-rate"])
        written["trace.mean_rate"] = f"--mean-rate {flags['mean-rate']}"
    return written


def _check_stream(asked: Any) -> None:
    from trimtab.stream_autoscaling.sure.task import check_settings
    from trimtab.stream_autoscaling.workload.jobs import make_job
    from trimtab.stream_autoscaling.workload.presets import draw_trace

    asked.training.check_batch(asked.environments * asked.lanes)
    for name in asked.jobs:
        draw_trace(asked.trace, make_job(name), seed=0, part="validation")
    check_settings(asked)


def _judge_stream(asked: Any, folder: Path) -> list[str]:
    """All jobs of the run in one comparison."""
    return [_compare_stream(asked.jobs, asked.trace, asked.deployment, folder)]


def _judge_compact_stream(asked: Any, folder: Path) -> list[str]:
    """All jobs of a course in one comparison."""
    return [_compare_stream(one.jobs, one.trace, asked.deployment, folder) for one in asked.courses]


def _compare_stream(jobs: Any, trace: Any, deployment: Any, folder: Path) -> str:
    words = ["trimtab", "compare", "stream/jobs", "--job", ",".join(jobs)]
    words += ["--policies", f"oracle-static:tuned,hpa:tuned,ds2:tuned,flink:tuned,{folder}"]
    if trace.name != "clarknet-like":
        words += ["--trace", trace.name]
    if trace.mean_rate is not None:
        words += ["--mean-rate", str(trace.mean_rate)]
    if deployment.interval_s != 60:
        words += ["--set", f"deployment.interval_s={deployment.interval_s}"]
    return shlex.join(words)
