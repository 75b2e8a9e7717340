"""What environments for libraries that speak Gymnasium have in common. Needs the extra `gym`."""

try:
    import gymnasium
except ModuleNotFoundError as missing:
    if missing.name != "gymnasium":
        raise
    raise ImportError(
        "gymnasium is not installed; in the checkout of trimtab, pip install '.[gym]'"
    ) from None

__all__ = ["registered"]


def registered(name: str, entry_point: str, vector_entry_point: str | None = None) -> str:
    """Make `gymnasium.make` know an environment under this name, if it does not yet; returns the name."""
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=entry_point, vector_entry_point=vector_entry_point)
    return name
