"""Compile quickly: most of a learning test's time is compiling."""

from collections.abc import Generator

import pytest
from tests.quick_compilation import compiling_quickly


@pytest.fixture(scope="package", autouse=True)
def quick_learning() -> Generator[None]:
    with compiling_quickly():
        yield
