"""One set of colours for every picture, so a job or a policy looks the same wherever it appears."""

from collections.abc import Sequence

__all__ = ["JOB_COLOURS", "POLICY_COLOURS", "POLICY_DASHES", "job_colours", "policy_styles"]

# Eight hues at three lightnesses (OKLCH 0.50, 0.64, 0.79), legible on white and on near-black. The
# order keeps any ten neighbours apart for normal, deuteranope and protanope eyes: jobs that run at
# the same time have neighbouring numbers.
JOB_COLOURS: tuple[str, ...] = (
    *("#4390da", "#06726e", "#23a56f", "#bf7b0f", "#5758a8", "#716400", "#9d3f53", "#73c5f4"),
    *("#8fcd91", "#dda3e0", "#efa878", "#937ad5", "#009fac", "#d26861", "#046b96", "#2b7532"),
    *("#8a951f", "#974c00", "#86478a", "#5cd0c9", "#f59eab", "#adb3fd", "#cabc6a", "#c169a6"),
)

# (on a light page, on a dark page): at least 4.5:1 against the page, so the colour may carry text.
POLICY_COLOURS: tuple[tuple[str, str], ...] = (
    ("#0b66ad", "#62b4f2"),
    ("#b5400f", "#f5935f"),
    ("#0c735a", "#4fcba3"),
    ("#7d45b3", "#c6a0f2"),
    ("#7a5d00", "#dfbc50"),
    ("#a62a64", "#f286b8"),
    ("#46525e", "#b6c3cf"),
    ("#0b7480", "#55cdd8"),
    ("#5a6a00", "#b5c94a"),
    ("#3d4fc4", "#9fb0ff"),
    ("#903a3a", "#f0a0a0"),
)

# Eleven colours and five dashes have no common divisor: 55 policies before a pair comes again.
# Lengths of stroke and gap in line widths; the second cue where colours are hard to tell apart.
POLICY_DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2), (2, 1), (8, 2, 2, 2), (4, 1.5))


def job_colours(count: int) -> list[str]:
    """The colour of each of the first `count` jobs; after 24 jobs the colours come again.

    >>> job_colours(2)
    ['#4390da', '#06726e']
    """
    return [JOB_COLOURS[job % len(JOB_COLOURS)] for job in range(count)]


def policy_styles(policies: Sequence[str], *, dark: bool = False) -> dict[str, tuple[str, tuple[float, ...]]]:
    """Colour and dashes of each policy, by its place in the list.

    >>> policy_styles(["fair", "srpt"])["srpt"]
    ('#b5400f', (6, 2))
    """
    names = list(dict.fromkeys(policies))
    return {
        name: (
            POLICY_COLOURS[place % len(POLICY_COLOURS)][dark],
            POLICY_DASHES[place % len(POLICY_DASHES)],
        )
        for place, name in enumerate(names)
    }
