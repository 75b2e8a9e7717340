"""The page of claims says what the committed results say."""

from __future__ import annotations

import pytest
from benchmarks.claims import PAGE, load, page, rounded, rows_of
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


@pytest.mark.parametrize("value", [0.9996, 0.99984, 1.0003, 1.00004, 0.999999])
def test_a_number_beside_1_is_told_on_its_side_of_it(value: float) -> None:
    assert (float(rounded(value)) < 1) == (value < 1) and float(rounded(value)) != 1
