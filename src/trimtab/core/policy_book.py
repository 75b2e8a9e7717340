"""Policies by name: rules with their settings, and trained ones as bundles on disk.

``weighted-fair:alpha=-0.5`` is the door for the command line and for tables. Trained policies that come with
trimtab have the name of their folder; any other is named by its path: the folder of the bundle, or the run
folder that holds it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle, load_bundle
from trimtab.core.errors import BundleError, RegistryError, SettingsError
from trimtab.core.policy import RuleLike
from trimtab.core.registry import POLICY_ENTRY_POINTS, Registry

__all__ = ["PolicyBook"]

_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class _Trained:
    """A bundle on disk that is loaded when called."""

    folder: Path
    name: str
    kinds: Registry[Any]
    told: Callable[[Bundle], str]

    def __call__(self) -> Any:
        bundle = load_bundle(self.folder)
        if bundle.kind not in self.kinds:
            known = ", ".join(self.kinds)
            raise BundleError(
                f"{self.name}: a policy of {bundle.wing} ({bundle.kind}), and here {known} is needed; "
                "use it with its own wing"
            )
        policy = self.kinds.load(bundle.kind)(bundle)
        # What a user writes to get it, so that two runs of one preset are told apart in a table.
        if is_dataclass(policy):
            return replace(policy, name=self.name)  # pyright: ignore[reportArgumentType, reportCallIssue]
        policy.name = self.name
        return policy

    def sentence(self) -> str:
        """Say what it was trained on."""
        bundle = load_bundle(self.folder)
        told = self.told(bundle)
        return f"Learned ({bundle.kind}){': ' if told else ''}{told}."


class PolicyBook(Registry[Any]):
    """The policies of one wing.

    `kinds` names what makes a policy from a bundle, by the kind in its manifest: named and not imported,
    for a rule needs nothing of what trained policies are made of. `deciding` is the method that makes an
    object a policy of the wing, `told` says in words what a bundle was trained on.
    """

    def __init__(
        self,
        prefix: str,
        rules: Mapping[str, str],
        *,
        kinds: Mapping[str, str],
        bundles: Path,
        deciding: str,
        example: str,
        told: Callable[[Bundle], str],
    ) -> None:
        named = {prefix + name: target for name, target in rules.items()}
        super().__init__("policy", named, POLICY_ENTRY_POINTS, prefix=prefix)
        self.prefix = prefix
        self.bundles = bundles
        self._kinds: Registry[Any] = Registry("kind of trained policy", kinds)
        self._deciding, self._example, self._told = deciding, example, told

    def make(self, name: str, values: Mapping[str, float] | None = None) -> Any:
        """Make the policy of that name; settings may stand in the name or in `values`.

        A policy with settings of its own carries them in its name, so a table can show two of a kind.
        """
        if self._is_path(name):
            base, written, thing = name, {}, self._trained(self.find_bundle(name), name)
        else:
            base, written = self.parse(name)
            thing = self.load(self.prefix + base)
        wanted = {**written, **(values or {})}
        if isinstance(thing, _Trained) and wanted:
            raise SettingsError(
                f"policy {base!r} is trained and has no settings; leave out {', '.join(wanted)}"
            )
        made = thing if isinstance(thing, RuleLike) else _called(base, thing, {})
        if isinstance(made, RuleLike):
            return _with_values(base, made, wanted)
        if wanted:
            made = _called(base, thing, wanted)
        if not (hasattr(made, "name") and callable(getattr(made, self._deciding, None))):
            raise RegistryError(
                f"policy {base!r} makes {type(made).__name__}, which has no `name` and `{self._deciding}`; "
                "return a Rule or an object with both"
            )
        return made

    def parse(self, text: str) -> tuple[str, dict[str, float]]:
        """Split ``name:setting=value,setting=value``; the wing's prefix may be left out."""
        base, colon, written = text.strip().partition(":")
        if not self.short_name(base.strip()):
            raise SettingsError(f"policy {text!r} has no name; `trimtab policies` lists them")
        values: dict[str, float] = {}
        if written.strip() == "tuned":
            raise SettingsError(
                f"policy {text!r}: tuned settings are known to `trimtab compare` and `trimtab explain`, for "
                f"workloads they were tuned on; here write them out, for example {self._example}"
            )
        for part in written.split(",") if colon else ():
            setting, _, value = part.partition("=")
            try:
                values[setting.strip()] = float(value)
            except ValueError:
                raise SettingsError(
                    f"policy {text!r}: {part.strip()!r} is not setting=number; "
                    f"write for example {self._example}"
                ) from None
        return self.short_name(base.strip()), values

    def short_name(self, name: str) -> str:
        """Drop the wing's prefix: inside the wing, ``dag/fair`` is ``fair``."""
        return name.removeprefix(self.prefix)

    def described(self, name: str) -> str:
        """Say in one sentence what a policy does: the first line of its docstring."""
        thing = self.load(self.prefix + self.short_name(name))
        if isinstance(thing, _Trained):
            return thing.sentence()
        text = thing.sentence if isinstance(thing, RuleLike) else thing.__doc__ or ""
        return text.strip().split("\n")[0]

    def find_bundle(self, text: str) -> Path:
        """Find the folder of a trained policy: by name, by its path, or by that of the run that made it."""
        named = self.bundles / self.short_name(text)
        folders = [named, Path(text), Path(text) / "bundle"]
        found = next((folder for folder in folders if (folder / _MANIFEST).is_file()), None)
        if found is None:
            state = "holds no trained policy" if Path(text).is_dir() else "no such folder"
            raise BundleError(
                f"{text}: {state}; give a bundle (a folder with {_MANIFEST}) or a run of `trimtab train`"
            )
        return found

    def _trained(self, folder: Path, name: str) -> _Trained:
        return _Trained(folder, name, self._kinds, self._told)

    def _targets(self) -> dict[str, str]:
        trained = sorted(found.parent for found in self.bundles.glob(f"*/{_MANIFEST}"))
        return {self.prefix + folder.name: str(folder) for folder in trained} | super()._targets()

    def _import(self, name: str, target: str) -> Any:
        if (Path(target) / _MANIFEST).is_file():
            return self._trained(Path(target), self.short_name(name))
        return super()._import(name, target)

    def _is_path(self, text: str) -> bool:
        """Whether a policy is named by a place on disk; registered names go first."""
        name = self.short_name(text.strip())
        if "/" in name.partition(":")[0]:
            return True
        return bool(name) and self.prefix + name not in self and Path(name).is_dir()


def _called(base: str, thing: Any, settings: Mapping[str, float]) -> Any:
    try:
        return thing(**settings)
    except TypeError as error:
        raise SettingsError(f"policy {base!r} refuses its settings: {error}") from None


def _with_values(base: str, rule: RuleLike, values: Mapping[str, float]) -> Any:
    if not values:
        return rule
    changed: Any = replace(rule, name=base).with_values(values)  # pyright: ignore[reportArgumentType]
    told = ",".join(f"{p.name}={values[p.name]:g}" for p in rule.parameters if p.name in values)
    return replace(changed, name=f"{base}:{told}")
