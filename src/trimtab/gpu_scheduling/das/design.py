"""What the network agents are made of; stored in the manifest of their bundle."""

from __future__ import annotations

from typing import Literal

from trimtab.core.settings import Field, Settings, model_validator

__all__ = ["Design"]


class Design(Settings):
    """Actions and sizes of the two network agents, and which parts of the published ones they have.

    >>> Design(actions="scores", process=False).rank
    16
    """

    actions: Literal["scores", "choices"] = Field(
        default="choices",
        description="scores: of all jobs and machines at once, as published; choices: one job at a time.",
    )
    window: int = Field(default=64, ge=1, le=4096, description="Waiting jobs looked at.")
    width: int = Field(default=64, ge=1, le=4096, description="Numbers in the embedding of a job or machine.")
    layers: int = Field(default=2, ge=0, le=64, description="Layers of the Transformer over jobs.")
    heads: int = Field(default=4, ge=1, le=64, description="Heads of its attention; they divide the width.")
    rank: int = Field(default=16, ge=1, le=256, description="Rank of the Gaussian process over machines.")
    history: int = Field(
        default=32, ge=1, le=1_000_000, description="An observed speed is worth at most so many observations."
    )
    communicate: bool = Field(default=True, description="Whether jobs hear of machines through a gate.")
    process: bool = Field(
        default=True, description="Whether machines alike have scores alike; off: each on its own."
    )
    experienced: bool = Field(
        default=False,
        description="Whether a job of untold duration is expected to take as long as others like it took.",
    )
    places: bool = Field(
        default=False,
        description="Of choices: whether jobs hear how good a place they would get; first scores are then "
        "those of a rule that waits for good ones.",
    )

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Design:
        if self.width % self.heads:
            raise ValueError(f"width = {self.width} cannot be divided among heads = {self.heads}; change one")
        if self.places and self.actions != "choices":
            raise ValueError("places = true is for choices alone; set actions = choices, or places = false")
        return self
