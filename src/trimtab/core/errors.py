"""What trimtab says when it refuses: one line naming the thing and the way out."""

__all__ = [
    "ActionError",
    "BundleError",
    "HistoryError",
    "RegistryError",
    "SettingsError",
    "TrimtabError",
    "WorkloadError",
]


class TrimtabError(Exception):
    """Base of every error a user can cause and mend.

    The message is one line: where, what was found, and what to do instead. The command line
    prints that line alone (and the traceback with ``--debug``).

    >>> raise TrimtabError("run folder runs/a exists; choose another name")
    Traceback (most recent call last):
    trimtab.core.errors.TrimtabError: run folder runs/a exists; choose another name
    """


class SettingsError(TrimtabError):
    """A settings file or flag holds an unknown key, a wrong type or a value out of range."""


class HistoryError(TrimtabError):
    """A history (event log, accounting dump, trace) is damaged, incomplete or of another kind."""


class WorkloadError(TrimtabError):
    """A workload breaks its own rules: a cycle, a negative duration, arrivals out of order."""


class ActionError(TrimtabError):
    """A policy asked for something that the present snapshot does not allow."""


class RegistryError(TrimtabError):
    """A name is unknown, taken twice, or points to something that cannot be imported."""


class BundleError(TrimtabError):
    """A file of tensors or a policy bundle is missing, damaged, changed or of another kind."""
