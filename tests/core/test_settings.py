from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from trimtab.core.errors import SettingsError
from trimtab.core.settings import (
    Field,
    Settings,
    ValidationInfo,
    field_validator,
    load_settings,
    model_validator,
    settings_as_toml,
    settings_of_keywords,
)


class Cluster(Settings):
    executors: int = Field(50, ge=1, le=100, description="Executors in the cluster.")
    moving_delay_ms: int = Field(2000, ge=0, description="Time to move an executor.")


class Arrival(Settings):
    mean_gap_s: float = Field(45.0, gt=0, description="Mean gap between jobs.")


class Run(Settings):
    seed: int = Field(..., description="Where luck begins.")
    policy: Literal["fair", "fifo"] = Field("fair", description="The rule to play.")
    cluster: Cluster = Field(Cluster(), description="What jobs run on.")
    arrivals: tuple[Arrival, ...] = Field((), description="Streams of jobs.")
    label: str | None = Field(None, description="A name for tables.")
    sizes: dict[str, int] = Field({}, description="Jobs by size.")

    @field_validator("label")
    @classmethod
    def _no_spaces(cls, label: str | None, _: ValidationInfo) -> str | None:
        if label and " " in label:
            raise ValueError("a label has no spaces; use dashes")
        return label

    @model_validator(mode="after")
    def _fifo_is_alone(self) -> "Run":
        if self.policy == "fifo" and self.arrivals:
            raise ValueError("fifo takes no arrivals; remove one of them")
        return self


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text('seed = 3\nlabel = "a"\n[cluster]\nexecutors = 10\n')
    return path


def refusal(overrides: dict[str, Any], path: Path | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(Run, path, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_flags_lie_over_file_over_defaults(file: Path) -> None:
    run = load_settings(Run, file, {"cluster.moving_delay_ms": 5, "policy": "fifo"})
    assert (run.seed, run.policy) == (3, "fifo")
    assert run.cluster == Cluster(executors=10, moving_delay_ms=5)


def test_nested_and_dotted_flags_mean_the_same() -> None:
    dotted = load_settings(Run, None, {"seed": 1, "cluster.executors": 7})
    nested = load_settings(Run, None, {"seed": 1, "cluster": {"executors": 7}})
    mixed = {"seed": 1, "cluster.executors": 7, "cluster": {"moving_delay_ms": 2000}}
    assert dotted == nested == load_settings(Run, None, mixed)


def test_a_table_changes_only_what_it_names(tmp_path: Path) -> None:
    class Large(Settings):
        run: Run = Run(seed=7, cluster=Cluster(executors=90))

    file = tmp_path / "large.toml"
    file.write_text("[run.cluster]\nmoving_delay_ms = 5\n")
    asked = load_settings(Large, file, {"run.label": "a"}).run
    assert asked == Run(seed=7, cluster=Cluster(executors=90, moving_delay_ms=5), label="a")
    assert load_settings(Large, file, {"run.cluster.executors": 50}).run.cluster.executors == 50


def test_a_flag_not_given_leaves_the_file_alone(file: Path) -> None:
    assert load_settings(Run, file, {"label": None, "cluster": {"executors": None}}).label == "a"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Cluster().executors = 3  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"cluster.executors": 0}, "flags: cluster.executors = 0: should be greater than or equal to 1; allowed: integer, >= 1, <= 100"),  # noqa: E501
        ({"cluster.executors": "many"}, 'flags: cluster.executors = "many": should be a valid integer, unable to parse string as an integer; allowed: integer, >= 1, <= 100'),  # noqa: E501
        ({"cluster.executors": True}, "flags: cluster.executors = true: should be a number, not true or false; allowed: integer, >= 1, <= 100"),  # noqa: E501
        ({"cluster.executers": 5}, "flags: cluster.executers is not a setting; did you mean 'executors'?"),
        ({"executors": 5}, "flags: executors is not a setting; did you mean 'cluster.executors'?"),
        ({"zzz": 5}, "flags: zzz is not a setting; known settings: seed, policy, cluster, arrivals, label, sizes"),  # noqa: E501
        ({"policy": "first"}, "flags: policy = \"first\": should be 'fair' or 'fifo'"),
        ({"arrivals": [{"mean_gap_s": 0}]}, "flags: arrivals.0.mean_gap_s = 0: should be greater than 0; allowed: number, > 0"),  # noqa: E501
        ({"arrivals": [{"mean_gap": 1}]}, "flags: arrivals.0.mean_gap is not a setting; did you mean 'mean_gap_s'?"),  # noqa: E501
        ({"arrivals": [{"mean_gap_s": float("nan")}]}, "flags: arrivals.0.mean_gap_s = NaN: should be a finite number; allowed: number, > 0"),  # noqa: E501
        ({"label": "a b"}, 'flags: label = "a b": a label has no spaces; use dashes'),
        ({"policy": "fifo", "arrivals": [{}]}, "flags: Run: fifo takes no arrivals; remove one of them"),
        ({"sizes": {"small": "x"}}, 'flags: sizes.small = "x": should be a valid integer, unable to parse string as an integer'),  # noqa: E501
    ],
)  # fmt: skip
def test_refusals_name_the_field_the_value_and_the_way_out(overrides: dict[str, Any], message: str) -> None:
    assert refusal({"seed": 1, **overrides}) == message


def test_a_refusal_blames_the_file_or_the_flag_that_holds_the_value(file: Path) -> None:
    file.write_text("seed = 3\n[cluster]\nexecutors = 1000\n")
    assert refusal({}, file).startswith(f"{file}: cluster.executors = 1000")
    assert refusal({"cluster.executors": 2000}, file).startswith("flags: cluster.executors = 2000")
    file.write_text("")
    assert refusal({}, file) == f"{file}: seed is missing; add it"


def test_a_refusal_may_say_how_the_user_wrote_it(file: Path) -> None:
    def written(field: str) -> str:
        return f"--set {field}"

    with pytest.raises(SettingsError, match=r"^--set cluster\.executors: cluster\.executors = 0"):
        load_settings(Run, file, {"cluster.executors": 0}, given_as=written)
    file.write_text("seed = 3\nnothing = 1\n")
    with pytest.raises(SettingsError, match=r"run\.toml: nothing is not a setting"):
        load_settings(Run, file, {"cluster.executors": 9}, given_as=written)


def test_long_values_are_cut_and_further_faults_counted() -> None:
    message = refusal({"seed": "x" * 200, "policy": "first"})
    assert message.endswith("(and 1 more)")
    assert len(message) < 200


def test_a_table_where_a_number_belongs_is_refused() -> None:
    told = "flags: cluster = 3: should be a table; known settings: executors, moving_delay_ms"
    assert refusal({"seed": 1, "cluster": 3}) == told
    assert refusal({"seed": {"a": 1}}).startswith('flags: seed = {"a": 1}')


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    assert "no such settings file" in refusal({}, tmp_path / "none.toml")
    assert "is a folder" in refusal({}, tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_text("seed = \n")
    assert "not valid TOML" in refusal({}, broken)
    assert "line 1" in refusal({}, broken)


def test_a_mark_before_the_first_letter_is_no_fault(tmp_path: Path) -> None:
    """Editors on Windows put one there."""
    path = tmp_path / "marked.toml"
    path.write_text("seed = 7\n", encoding="utf-8-sig")
    assert load_settings(Run, path).seed == 7


def test_written_settings_read_back_the_same(tmp_path: Path) -> None:
    run = Run(
        seed=5,
        label='a"b"\\n',
        cluster=Cluster(executors=7),
        arrivals=(Arrival(mean_gap_s=1e-9), Arrival()),
        sizes={"two words": 2, "ö": 1},
    )
    path = tmp_path / "settings.toml"
    path.write_text(settings_as_toml(run), encoding="utf-8")
    assert load_settings(Run, path) == run
    path.write_text(settings_as_toml(Run(seed=1)), encoding="utf-8")
    assert load_settings(Run, path) == Run(seed=1)


def test_options_of_a_function_are_checked_like_settings() -> None:
    def read(path: str, *, keep_going: bool = False, sizes: Sequence[int] = (1,), other=None) -> None: ...

    kind = settings_of_keywords(read, but=["keep_going"])
    assert load_settings(kind, None, {"sizes": [2, 3]}).model_dump() == {"sizes": [2, 3], "other": None}
    for options, said in (
        ({"sizes": "2, 3"}, r"sizes = \"2, 3\": should be a list such as \[1, 2\]"),
        ({"path": "x"}, "path is not a setting"),
        ({"keep_going": True}, "keep_going is not a setting"),
    ):
        with pytest.raises(SettingsError, match=said):
            load_settings(kind, None, options)


def test_a_setting_without_a_sentence_is_written_without_one() -> None:
    class Bare(Settings):
        count: int = 1

    assert settings_as_toml(Bare()) == "count = 1\n"
