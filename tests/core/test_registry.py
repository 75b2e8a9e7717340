from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from trimtab.core import registry as registry_module
from trimtab.core.errors import RegistryError
from trimtab.core.registry import Registry

TABLE = {"dag/floor": "math:floor", "dag/join": "os:path.join"}


def with_entry_points(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    found = [EntryPoint(name, value, "trimtab.policies") for name, value in points]
    monkeypatch.setattr(
        registry_module,
        "entry_points",
        lambda group: [point for point in found if point.group == group],
    )


def test_names_are_sorted_and_counted() -> None:
    rules = Registry[object]("policy", TABLE)
    assert rules.names() == tuple(rules) == ("dag/floor", "dag/join")
    assert len(rules) == 2
    assert "dag/floor" in rules
    assert "dag/ceil" not in rules


def test_targets_load_on_first_use_only() -> None:
    rules = Registry[object]("policy", {"dag/absent": "trimtab.no_such_module:thing"})
    assert rules.names() == ("dag/absent",)
    with pytest.raises(RegistryError, match=r"'trimtab\.no_such_module:thing', which cannot be"):
        rules.load("dag/absent")


def test_dotted_objects_load() -> None:
    from os.path import join

    assert Registry[object]("policy", TABLE).load("dag/join") is join


@pytest.mark.parametrize("target", ["math:no_such_thing", "math", ":floor"])
def test_a_target_that_cannot_be_loaded_is_named(target: str) -> None:
    with pytest.raises(RegistryError, match=f"policy 'dag/x' points to '{target}'"):
        Registry[object]("policy", {"dag/x": target}).load("dag/x")


def test_unknown_names_get_close_matches_and_the_list() -> None:
    with pytest.raises(RegistryError) as caught:
        Registry[object]("policy", TABLE).load("dag/flour")
    assert str(caught.value) == (
        "no policy 'dag/flour'; did you mean 'dag/floor'? known: dag/floor, dag/join"
    )
    with pytest.raises(RegistryError, match=r"^no suite 'zzz'; known: none$"):
        Registry[object]("suite", {}).load("zzz")


def test_entry_points_add_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with_entry_points(monkeypatch, ("dag/ceil", "math:ceil"), ("pods/trunc", "math:trunc"))
    rules = Registry[object]("policy", TABLE, "trimtab.policies", prefix="dag/")
    assert rules.names() == ("dag/ceil", "dag/floor", "dag/join")
    assert rules.load("dag/ceil").__name__ == "ceil"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_name_declared_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_entry_points(monkeypatch, ("dag/floor", "math:ceil"))
    with pytest.raises(RegistryError, match="'dag/floor' is declared twice: math:floor and math:"):
        Registry[object]("policy", TABLE, "trimtab.policies").names()


def test_an_installed_package_that_takes_a_name_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "their_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[trimtab.policies]\ndag/floor = math:ceil\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RegistryError, match=r"\(from package their-rules\); rename one"):
        Registry[object]("policy", TABLE, "trimtab.policies").names()


def test_a_name_of_another_wing_is_refused() -> None:
    with pytest.raises(RegistryError, match="'pods/floor' must begin with 'dag/'"):
        Registry[object]("policy", {"pods/floor": "math:floor"}, prefix="dag/")
