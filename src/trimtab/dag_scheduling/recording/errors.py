"""What goes wrong while recording, in one line that names the thing and the way out."""

from __future__ import annotations

from trimtab.core.errors import TrimtabError

__all__ = ["RecordingError"]


class RecordingError(TrimtabError):
    """A tool is missing, an application failed, or a log does not hold what a profile needs."""
