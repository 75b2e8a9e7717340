"""What the papers claim, section by section, and which rows of our results answer each claim.

Decima and input-dependent baselines, SURE, AWARE and DAS; `benchmarks/claims.py` makes the page of it.
"""

from __future__ import annotations

from benchmarks.papers import aware, das, decima, sure
from benchmarks.papers.claim import Claim

__all__ = ["SECTIONS", "Claim"]

SECTIONS = tuple((paper.HEADING, paper.CLAIMS) for paper in (decima, sure, aware, das))
