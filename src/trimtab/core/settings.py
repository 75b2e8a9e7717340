"""Settings: frozen models, TOML files beneath flags, refusals in one line.

A wing subclasses `Settings` with one sentence and one range per field; the command line reads
flags into a mapping and calls `load_settings`. Flags win over the file, the file over defaults.

This module is the only door to pydantic. Subclasses take `Field` from here, with `default=` by
name, which is how type checkers see that a field may be left out:

>>> from trimtab.core.settings import Field, Settings, load_settings
>>> class ClusterSettings(Settings):
...     executors: int = Field(default=50, ge=1, le=100_000, description="Size of the cluster.")
>>> load_settings(ClusterSettings, None, {"executors": 8}).executors
8
"""

import difflib
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from trimtab.core.errors import SettingsError

__all__ = [
    "Field",
    "Presets",
    "Settings",
    "ValidationInfo",
    "field_validator",
    "load_settings",
    "model_validator",
    "settings_as_toml",
    "settings_of_keywords",
    "toml_value",
]


NUMBERS = (int, float, int | None, float | None)


class Settings(BaseModel):
    """Base of every settings model: frozen, unknown keys refused, defaults checked too.

    >>> class Noise(Settings):
    ...     spread: float = Field(default=0.1, ge=0, description="Relative spread of task durations.")
    >>> Noise().spread
    0.1
    >>> Noise(spread=0.2) == Noise(spread=0.2)
    True
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        """`true` is not 1: whoever writes it for a number means something else."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in NUMBERS:
            raise ValueError("should be a number, not true or false")
        return value


BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that TOML takes without quotes."""
AnySettings = TypeVar("AnySettings", bound=Settings)


def _by_flags(field: str) -> str:
    return "flags"


def load_settings(
    cls: type[AnySettings],
    path: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    given_as: Callable[[str], str] = _by_flags,
) -> AnySettings:
    """Read settings from a TOML file (if any) with flags laid over it.

    Overrides are nested like the file; a dotted name (``"cluster.executors"``) reaches into a
    table. An override of ``None`` means "flag not given" and leaves the file's value alone. A table
    changes only what it names: where a field comes with settings of its own, the others stay as they are
    there. `given_as` tells how the user wrote the override of a dotted name; a refusal begins with it.
    """
    from_file = {} if path is None else _read_toml(Path(path))
    from_flags = _nest(overrides or {})
    usual = {name: field.default for name, field in cls.model_fields.items()}
    try:
        return cls.model_validate(_over_usual(usual, _laid_over(from_file, from_flags)))
    except ValidationError as error:
        raise SettingsError(_one_line(cls, error, path, from_flags, given_as)) from None


class Presets(Generic[AnySettings]):
    """The presets of one package: TOML files in one of its folders, each a whole set of settings."""

    def __init__(self, package: str, kind: type[AnySettings], folder: str = "presets") -> None:
        self._package, self._kind, self._name = package, kind, folder

    def names(self) -> list[str]:
        """The presets that come with trimtab."""
        return sorted(path.stem for path in self._folder.glob("*.toml"))

    def sentence(self, name: str) -> str:
        """What a preset is for: the comment in its first line, if there is one."""
        first = (self._folder / f"{name}.toml").read_text(encoding="utf-8").split("\n")[0]
        return first.removeprefix("#").strip() if first.startswith("#") else ""

    def load(self, name: str, changes: Mapping[str, Any] | None = None) -> AnySettings:
        """Read a preset by name, or a settings file by path; `changes` go on top."""
        is_file = name.endswith(".toml")
        if not is_file and name not in self.names():
            raise SettingsError(
                f"no preset {name!r}; there are {', '.join(self.names())}, or give a .toml file"
            )
        path = Path(name) if is_file else self._folder / f"{name}.toml"
        return load_settings(self._kind, path, changes or {})

    @property
    def _folder(self) -> Path:
        return Path(str(files(self._package).joinpath(self._name)))


def settings_of_keywords(function: Callable[..., Any], *, but: Sequence[str] = ()) -> type[Settings]:
    """Settings made of the keyword-only parameters of a function, so that its options are checked like these.

    >>> def read(path: str, *, keep_going: bool = False, step_s: float = 60.0) -> None: ...
    >>> load_settings(settings_of_keywords(read, but=["keep_going"]), None, {"step_s": 15})
    read(step_s=15.0)
    """
    fields: dict[str, Any] = {
        name: (Any if parameter.annotation is parameter.empty else parameter.annotation, parameter.default)
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in but
    }
    return create_model(function.__name__, __base__=Settings, **fields)


def settings_as_toml(settings: Settings) -> str:
    """Write settings so that `load_settings` reads the same ones back.

    >>> class Noise(Settings):
    ...     spread: float = Field(default=0.1, ge=0, description="Relative spread of task durations.")
    >>> print(settings_as_toml(Noise()), end="")
    # Relative spread of task durations.
    spread = 0.1
    """
    return "\n".join(_toml_lines(settings, ())) + "\n"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        # Editors on Windows put a mark before the first letter.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such settings file; check the path") from None
    except IsADirectoryError:
        raise SettingsError(f"{path}: is a folder; name a TOML file in it") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}; mend that line") from None


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        if value is None:
            continue
        *tables, key = name.split(".")
        target = nested
        for table in tables:
            target = target.setdefault(table, {})
        if isinstance(value, Mapping):
            target[key] = _laid_over(target.get(key, {}), _nest(value))
        else:
            target[key] = value
    return nested


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            value = _laid_over(under, value)
        merged[key] = value
    return merged


def _over_usual(usual: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Beneath each table that is given, what the field there has otherwise than its model does."""
    laid = dict(given)
    for name, value in given.items():
        inner = usual.get(name)
        if isinstance(inner, Settings) and isinstance(value, Mapping):
            laid[name] = {**inner.model_dump(exclude_defaults=True), **_over_usual(dict(inner), value)}
    return laid


def _one_line(
    cls: type[Settings],
    error: ValidationError,
    path: str | Path | None,
    from_flags: Mapping[str, Any],
    given_as: Callable[[str], str],
) -> str:
    """Say the first fault in full and count the rest."""
    faults = error.errors(include_url=False)
    fault = faults[0]
    place = tuple(part for part in fault["loc"] if isinstance(part, str | int))
    dotted = ".".join(str(part) for part in place)
    source = given_as(dotted) if path is None or _holds(from_flags, place) else str(path)
    field = dotted or cls.__name__
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{source}: {field}{_complaint(cls, fault, place)}{more}"


def _complaint(cls: type[Settings], fault: Any, place: Sequence[str | int]) -> str:
    if fault["type"] == "extra_forbidden":
        return " is not a setting; " + _known_names(cls, place)
    if fault["type"] == "missing":
        return " is missing; add it"
    if fault["type"] == "sequence_str":
        return f" = {_shown(fault['input'])}: should be a list such as [1, 2]"
    if fault["type"] in ("tuple_type", "list_type"):
        return f" = {_shown(fault['input'])}: should be a list, such as [{_shown(fault['input'])}]"
    if fault["type"] == "too_short":
        return f" = {_shown(fault['input'])}: give at least {fault['ctx']['min_length']}"
    if fault["type"] == "model_type":
        return f" = {_shown(fault['input'])}: should be a table; {_known_names(cls, (*place, ''))}"
    said = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    said = said[:1].lower() + said[1:]
    allowed = _allowed(cls, place)
    hint = f"; allowed: {allowed}" if allowed else ""
    if fault["type"] == "value_error" and isinstance(fault["input"], Mapping):
        return f": {said}"
    return f" = {_shown(fault['input'])}: {said}{hint}"


def _known_names(cls: type[Settings], place: Sequence[str | int]) -> str:
    model = _model_at(cls, place[:-1])
    names = list(model.model_fields) if model else []
    close = _nested_namesakes(model, str(place[-1])) or difflib.get_close_matches(str(place[-1]), names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known settings: {', '.join(names)}" if names else "remove it"


def _nested_namesakes(model: type[Settings] | None, name: str) -> list[str]:
    """Fields of this very name in the tables below: the table was left out. Lists have no such tables."""
    found: list[str] = []
    for table, field in model.model_fields.items() if model else ():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            below = [name] if name in inner.model_fields else _nested_namesakes(inner, name)
            found += [f"{table}.{one}" for one in below]
    return found


def _allowed(cls: type[Settings], place: Sequence[str | int]) -> str:
    """Put a field's bounds into words, e.g. ``integer, >= 1, <= 8``; empty when it has none."""
    names = [part for part in place if isinstance(part, str)]
    model = _model_at(cls, names[:-1]) if names else None
    field = model.model_fields.get(names[-1]) if model else None
    if field is None:
        return ""
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [
        f"{sign} {getattr(limit, name)}"
        for limit in field.metadata
        for name, sign in signs.items()
        if getattr(limit, name, None) is not None
    ]
    kinds = {int: "integer", float: "number", bool: "true or false", str: "text"}
    kind = kinds.get(field.annotation) if isinstance(field.annotation, type) else None
    return ", ".join(([kind] if kind else []) + bounds)


def _model_at(cls: type[Settings], tables: Sequence[str | int]) -> type[Settings] | None:
    model: type[Settings] | None = cls
    for table in tables:
        if isinstance(table, int):
            continue
        field = model.model_fields.get(table) if model else None
        model = _settings_within(field.annotation) if field else None
    return model


def _settings_within(annotation: Any) -> type[Settings] | None:
    """Find the settings model in ``Model``, ``Model | None`` or ``tuple[Model, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    return next(filter(None, map(_settings_within, get_args(annotation))), None)


def _holds(nested: Mapping[str, Any], place: Sequence[str | int]) -> bool:
    here: Any = nested
    for part in place:
        if not isinstance(here, Mapping) or part not in here:
            return here is not nested and not isinstance(here, Mapping)
        here = here[part]
    return bool(place)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _toml_lines(settings: Settings, tables: tuple[str, ...]) -> list[str]:
    plain: list[str] = []
    nested: list[str] = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value is None:
            continue
        if isinstance(value, Settings):
            nested += ["", f"[{'.'.join((*tables, name))}]", *_toml_lines(value, (*tables, name))]
            continue
        if field.description:
            plain.append(f"# {field.description}")
        plain.append(f"{name} = {toml_value(settings.model_dump(mode='json')[name])}")
    return plain + nested


def toml_value(value: Any) -> str:
    """Write a plain value as TOML in one line, as for a flag.

    >>> print(toml_value([{"name": "H900", "speed": 3.0}]))
    [{ name = "H900", speed = 3.0 }]
    """
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {toml_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(toml_value(item) for item in value if item is not None)}]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
