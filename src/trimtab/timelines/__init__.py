"""Pictures of episodes over time, for every wing: a block of panels for each policy, on common axes."""

from trimtab.timelines.blocks import blocks_figure, check_times
from trimtab.timelines.lines import (
    Look,
    Panel,
    Timed,
    draw_area,
    draw_line,
    from_zero,
    hours_of,
    powers_of_ten,
    shade,
)

__all__ = [
    "Look",
    "Panel",
    "Timed",
    "blocks_figure",
    "check_times",
    "draw_area",
    "draw_line",
    "from_zero",
    "hours_of",
    "powers_of_ten",
    "shade",
]
