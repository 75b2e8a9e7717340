"""The page of claims says what the committed results say."""

from __future__ import annotations

from benchmarks.claims import PAGE, load, page, rows_of
from benchmarks.papers import SECTIONS


def test_the_page_is_that_of_the_committed_results() -> None:
    assert PAGE.read_text() == page(), "run `python -m benchmarks.claims` and commit docs/claims.md"


def test_every_claim_finds_its_rows() -> None:
    lost = [
        (claim.topic, begins)
        for _, claims in SECTIONS
        for claim in claims
        if (result := load(claim.topic)) is not None
        for begins in claim.rows
        if "not measured" not in begins  # such a row is there only where data is missing
        and not any(row["name"].startswith(begins) for row in rows_of(claim, result))
    ]
    assert not lost
