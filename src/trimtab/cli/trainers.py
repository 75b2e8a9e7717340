"""What `trimtab train` must know of a wing, and the wings that learn."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from trimtab.core.settings import Presets
    from trimtab.dag_scheduling.decima.task import CourseSettings

__all__ = ["Trainer", "presets_of", "trainer_of"]

PRESET_FOLDERS = {
    "dag": ("trimtab.dag_scheduling.decima", ("presets", "compact_presets")),
    "stream": ("trimtab.stream_autoscaling.sure", ("presets", "compact_presets")),
    "pod": ("trimtab.pod_autoscaling.aware", ("presets",)),
    "gpu": ("trimtab.gpu_scheduling.das", ("presets", "network_presets")),
}
"""Where the presets of each wing lie, so that they can be listed without what training needs."""


@dataclass(frozen=True)
class Trainer:
    """A wing that learns, as a value."""

    wing: str
    presets: Presets[Any] | Families
    usual_preset: str
    settings: type[Any]
    """Of a whole run; they have `training`."""
    asked_for: str
    """The file in a run folder that keeps them."""
    score_name: str
    """What a manifest calls the score of its run."""
    score_words: str
    """The same in a sentence, after the number."""
    flags: tuple[str, ...]
    """Flags that say what to train on; the others are refused."""
    put_flags: Callable[[dict[str, Any], Mapping[str, str]], dict[str, str]]
    """Write such flags into plain settings; gives the fields that were set, and the flag of each."""
    check: Callable[[Any], None]
    """Refuse early what cannot work."""
    train: Callable[..., Path]
    save_bundle_of_run: Callable[..., Path]
    find_bundle: Callable[[str], Path]
    judge: Callable[[Any, Path], list[str]]
    """Commands that compare the policy of a run with rules."""
    seed_field: str = "training.seed"
    lessons_words: str = "lessons"
    """What is collected before training, where anything is."""
    fitted: Callable[[Any, Any, Collection[str]], Any] = lambda asked, preset, written: asked
    """Settings that follow from others, unless the preset or a flag sets them."""
    left_out: Callable[[Any], str] = lambda asked: ""
    """What is not trained on though it is there, in a line."""


@dataclass(frozen=True)
class Families:
    """Presets of several kinds of settings in one list; a settings file is read as one of the first kind."""

    kinds: tuple[Presets[Any], ...]

    def names(self) -> list[str]:
        """The presets of all kinds."""
        return sorted(name for kind in self.kinds for name in kind.names())

    def sentence(self, name: str) -> str:
        """What a preset is for."""
        return self._kind_of(name).sentence(name)

    def load(self, name: str, changes: Mapping[str, Any] | None = None) -> Any:
        """Read a preset by name, or a settings file by path."""
        return self._kind_of(name).load(name, changes)

    def _kind_of(self, name: str) -> Presets[Any]:
        from trimtab.core.errors import SettingsError

        if name.endswith(".toml"):
            return self.kinds[0]
        for kind in self.kinds:
            if name in kind.names():
                return kind
        raise SettingsError(f"no preset {name!r}; there are {', '.join(self.names())}, or give a .toml file")


class Asked(NamedTuple):
    """One of two kinds of training that a wing has."""

    presets: Presets[Any]
    file: str
    """Which holds the settings of such a run."""
    settings: type[Any]

    def meant(self, preset: str | None, resume: Path | None, *, otherwise: type[Any]) -> bool:
        """Whether this kind is asked for, as the run or the preset tells; files by fields only it has."""
        if resume is not None:
            return (resume / self.file).is_file()
        if preset is None or not preset.endswith(".toml"):
            return preset in self.presets.names()
        try:
            fields = set(tomllib.loads(Path(preset).read_text(encoding="utf-8-sig")))
        except (OSError, ValueError):
            return False  # what is wrong with the file is told where settings are read
        return bool(fields & (set(self.settings.model_fields) - set(otherwise.model_fields)))


def presets_of(wing: str) -> Families:
    """The presets of a wing, to be listed."""
    from trimtab.core.settings import Presets, Settings

    package, folders = PRESET_FOLDERS[wing.partition("_")[0]]
    return Families(tuple(Presets(package, Settings, folder) for folder in folders))


def trainer_of(wing: str, *, preset: str | None = None, resume: Path | None = None) -> Trainer:
    """The trainer of a wing; imports what training needs.

    Where a wing has several, `preset` (a name or a file) or the run to `resume` says which is meant.
    """
    if wing.startswith("gpu"):
        return _gpu_networks() if _asks_for_networks(preset, resume) else _gpu()
    if wing.startswith("dag"):
        return _dag_compact() if _asks_for_compact(preset, resume) else _dag()
    if wing.startswith("stream"):
        return _stream_compact() if _asks_for_compact_stream(preset, resume) else _stream()
    return _pod()


# --- DAG scheduling --------------------------------------------------------------------------------


def _dag() -> Trainer:
    from trimtab.dag_scheduling.decima import compact_task, task, training
    from trimtab.dag_scheduling.policies import find_bundle

    return Trainer(
        wing="dag",
        presets=Families((task.PRESETS, compact_task.PRESETS)),
        usual_preset="decima-tpch-batch",
        settings=task.DecimaSettings,
        asked_for=training.ASKED_FOR,
        score_name=training.SCORE,
        score_words="of its teacher's cost on validation workloads",
        flags=("workload",),
        put_flags=_put_workload,
        check=_check_dag,
        train=training.train_decima,
        save_bundle_of_run=training.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_dag,
    )


def _dag_compact() -> Trainer:
    from trimtab.dag_scheduling.decima import compact_task, task
    from trimtab.dag_scheduling.decima.compact_training import COMPACT
    from trimtab.dag_scheduling.policies import find_bundle

    return Trainer(
        wing="dag",
        presets=Families((compact_task.PRESETS, task.PRESETS)),
        usual_preset="compact-tpch-batch",
        settings=compact_task.CompactSettings,
        asked_for=COMPACT.asked_for,
        score_name=COMPACT.score,
        score_words="of its rule's cost on validation workloads",
        flags=("workload",),
        put_flags=_put_workload,
        check=_check_compact_dag,
        train=COMPACT.train,
        save_bundle_of_run=COMPACT.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_dag,
    )


def _asks_for_compact(preset: str | None, resume: Path | None) -> bool:
    """Whether the compact scheduler is meant, not the network."""
    from trimtab.dag_scheduling.decima import compact_task, task
    from trimtab.dag_scheduling.decima.compact_training import COMPACT

    compact = Asked(compact_task.PRESETS, COMPACT.asked_for, compact_task.CompactSettings)
    return compact.meant(preset, resume, otherwise=task.DecimaSettings)


def _put_workload(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    written = {}
    for number, course in enumerate(plain["courses"] if "workload" in flags else ()):
        course["workload"]["name"] = flags["workload"]
        written[f"courses.{number}.workload.name"] = f"--workload {shlex.quote(flags['workload'])}"
    return written


def _check_dag(asked: Any) -> None:
    from trimtab.dag_scheduling.decima.training import check_settings

    asked.training.check_batch(asked.environments * asked.lanes)
    _draw_courses(asked)
    check_settings(asked)


def _check_compact_dag(asked: Any) -> None:
    from trimtab.dag_scheduling.decima.compact_task import check_settings

    check_settings(asked)
    _draw_courses(asked)


def _draw_courses(asked: Any) -> None:
    """One episode of each, as training draws them: a file may be too short."""
    from trimtab.dag_scheduling.workload.presets import draw_workload

    for course in asked.courses:
        draw_workload(course.workload, executors=course.cluster.executors, seed=0, part="training")


RIVALS = "fair,weighted-fair:tuned,capped-srpt-local:tuned"


def _judge_dag(asked: Any, folder: Path) -> list[str]:
    """One for each course; where they differ in their load, the suite's own sweep."""
    loads = {course.workload.load for course in asked.courses}
    commands = [_compare_command(course, folder, sweep=len(loads) > 1) for course in asked.courses]
    return list(dict.fromkeys(commands))


def _compare_command(course: CourseSettings, folder: Path, *, sweep: bool) -> str:
    """Play the policy and the rules it has to beat on the course's test seeds."""
    jobs, cluster = course.workload, course.cluster
    stream = jobs.arrivals == "poisson"
    suite = "dag/multi-resource" if cluster.classes else "dag/stream" if stream else "dag/batch"
    words = ["trimtab", "compare", suite, "--policies", f"{RIVALS},{folder}"]
    if jobs.name != "tpch":
        words += ["--workload", jobs.name]
    if jobs.jobs != (200 if suite == "dag/stream" else 20):
        words += ["--jobs", str(jobs.jobs)]
    if cluster.executors != 50:
        words += ["--executors", str(cluster.executors)]
    if jobs.arrivals == "trace":
        words += ["--arrivals", "trace"]
    if jobs.load is not None and not sweep:
        words += ["--load", f"{jobs.load:g}"]
    return shlex.join(words)


# --- stream autoscaling ----------------------------------------------------------------------------


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


# --- pod autoscaling -------------------------------------------------------------------------------


def _pod() -> Trainer:
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
    written = {}
    for flag, field in (("app", "applications"), ("trace", "traces")):
        if flag in flags:
            plain["ground"][field] = [name.strip() for name in flags[flag].split(",") if name.strip()]
            written[f"ground.{field}"] = f"--{flag} {shlex.quote(flags[flag])}"
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


# --- GPU scheduling --------------------------------------------------------------------------------


def _gpu() -> Trainer:
    from trimtab.gpu_scheduling.das import network_task, task
    from trimtab.gpu_scheduling.das.training import DAS
    from trimtab.gpu_scheduling.policies import find_bundle

    return Trainer(
        wing="gpu",
        presets=Families((task.PRESETS, network_task.PRESETS)),
        usual_preset="das-gang",
        settings=task.DasSettings,
        asked_for=DAS.asked_for,
        score_name=DAS.score,
        score_words="of its rule's completion time and fee on validation workloads",
        flags=("workload", "cluster"),
        put_flags=_put_jobs,
        check=task.check_settings,
        train=DAS.train,
        save_bundle_of_run=DAS.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_gpu,
        fitted=_fitted_jobs,
        left_out=_jobs_left_out,
    )


def _gpu_networks() -> Trainer:
    from trimtab.gpu_scheduling.das import network_task, network_training, task
    from trimtab.gpu_scheduling.policies import find_bundle

    return Trainer(
        wing="gpu",
        presets=Families((network_task.PRESETS, task.PRESETS)),
        usual_preset="das-network",
        settings=network_task.NetworkSettings,
        asked_for=network_training.ASKED_FOR,
        score_name=network_training.SCORE,
        score_words="of its rule's completion time and fee on validation workloads",
        flags=("workload", "cluster"),
        put_flags=_put_world,
        check=network_task.check_settings,
        train=network_training.train_networks,
        save_bundle_of_run=network_training.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_networks,
        fitted=_fitted_jobs,
        left_out=_jobs_left_out,
    )


def _asks_for_networks(preset: str | None, resume: Path | None) -> bool:
    """Whether the network agents are meant, not the compact ones."""
    from trimtab.gpu_scheduling.das import network_task, network_training, task

    networks = Asked(network_task.PRESETS, network_training.ASKED_FOR, network_task.NetworkSettings)
    return networks.meant(preset, resume, otherwise=task.DasSettings)


def _put_world(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    """One workload instead of all those of the preset."""
    if "workload" in flags:
        plain["worlds"] = []
    return _put_jobs(plain, flags)


def _judge_networks(asked: Any, folder: Path) -> list[str]:
    return [_compare_gpu(asked, cluster, f"fifo+fast,smallest+fast,{folder}") for cluster in asked.clusters]


def _put_jobs(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    written = {}
    if "workload" in flags:
        plain["workload"]["name"] = flags["workload"]
        written["workload.name"] = f"--workload {shlex.quote(flags['workload'])}"
    if "cluster" in flags:
        plain["clusters"] = [name.strip() for name in flags["cluster"].split(",") if name.strip()]
        written["clusters"] = f"--cluster {shlex.quote(flags['cluster'])}"
    return written


def _fitted_jobs(asked: Any, preset: Any, written: Collection[str]) -> Any:
    """Of a trace, all jobs that the clusters can hold, as in comparisons."""
    from trimtab.gpu_scheduling.workload.clusters import find_cluster
    from trimtab.gpu_scheduling.workload.presets import all_that_fit

    clusters = [find_cluster(name, asked.gpu_types) for name in asked.clusters]
    said = preset.workload.model_fields_set | {name.removeprefix("workload.") for name in written}
    return asked.model_copy(update={"workload": all_that_fit(asked.workload, *clusters, said=said)})


def _jobs_left_out(asked: Any) -> str:
    from trimtab.gpu_scheduling.workload import Workload
    from trimtab.gpu_scheduling.workload.presets import all_jobs, find_source, left_out_words

    source = find_source(asked.workload.name)
    if not isinstance(source, Workload):
        return ""
    count = source.job_count - all_jobs(asked.workload).job_count
    return f"{count:,} of {source.job_count:,} {left_out_words(asked.workload)}" if count else ""


def _judge_gpu(asked: Any, folder: Path) -> list[str]:
    """One comparison for each cluster of the run."""
    rivals = "fifo+first-fit+strict,smallest+fast,las+fast" if asked.preemptive else "fifo+fast,smallest+fast"
    return [_compare_gpu(asked, cluster, f"{rivals},{folder}") for cluster in asked.clusters]


def _compare_gpu(asked: Any, name: str, policies: str) -> str:
    """On the suite of the cluster, or on that cluster in place of a suite's; the same jobs are left out."""
    from trimtab.benchmark.suite import SUITES
    from trimtab.core.settings import toml_value
    from trimtab.gpu_scheduling.workload.clusters import find_cluster
    from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, all_that_fit

    suite = f"gpu/{name}" if f"gpu/{name}" in SUITES else "gpu/das-small"
    words = ["trimtab", "compare", suite, "--policies", policies]
    if suite != f"gpu/{name}":
        words += ["--cluster", name]
    if asked.workload.name != "pai":
        words += ["--workload", asked.workload.name]
    usual = all_that_fit(WorkloadSettings(name=asked.workload.name), find_cluster(name, asked.gpu_types))
    for field in ("most_gpus", "shortest_s"):
        if getattr(asked.workload, field) != getattr(usual, field):
            words += ["--set", f"workload.{field}={getattr(asked.workload, field)}"]
    if asked.gpu_types:
        declared = toml_value(asked.model_dump(mode="json")["gpu_types"])
        words += ["--set", f"cluster.gpu_types={declared}"]
    return shlex.join(words)
