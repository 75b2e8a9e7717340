import pytest

from trimtab.core import errors


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "TrimtabError"])
def test_every_error_is_a_trimtab_error(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.TrimtabError)
