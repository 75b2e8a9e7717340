"""The table of functions: sixteen of Sizeless and three more, each with sane ranges."""

import pytest

from trimtab.core.errors import WorkloadError
from trimtab.pod_autoscaling.workload.profiles import LOCAL, PROFILES, STORAGE, profile_of


def test_the_sixteen_functions_of_sizeless() -> None:
    assert len(LOCAL) == 11
    assert len({*LOCAL, *STORAGE}) == 16
    assert {"floatOperations", "matMul", "sleep", "imageRotate"} <= set(LOCAL)
    assert set(PROFILES) - {*LOCAL, *STORAGE} == {"webPage", "rnnServing", "videoAnalytics"}


@pytest.mark.parametrize("name", PROFILES)
def test_ranges_are_ranges(name: str) -> None:
    profile = profile_of(name)
    for low, high in (profile.cpu_ms, profile.memory_mib, profile.memory_per_request_mib):
        assert 0 < low <= high
    assert 0 <= profile.io_ms[0] <= profile.io_ms[1]
    assert 0 <= profile.cpu_variation <= 1
    # What never waits has no variation of waiting.
    assert (profile.io_ms[1] > 0) == (profile.io_variation > 0)


def test_the_published_numbers_of_a_few() -> None:
    """A uniform wait of 100 to 500 ms has the squared variation (400 / 300)^2 / 12 = 0.148."""
    assert profile_of("sleep").io_ms == (100, 500)
    assert profile_of("sleep").io_variation == pytest.approx((400 / 300) ** 2 / 12, abs=0.01)
    assert profile_of("floatOperations").cpu_ms == (20, 600)


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no function 'sleeep'; there are compress"):
        profile_of("sleeep")
