"""Each mutant's text stands once in the file that it breaks, and the tests that are to notice are there."""

from __future__ import annotations

import pytest

from tests.mutants.__main__ import misplaced
from tests.mutants.catalog import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_its_place(mutant: Mutant) -> None:
    assert not misplaced(mutant)


def test_a_lost_place_is_named() -> None:
    lost = MUTANTS[0]._replace(before="no line of the product")
    assert "stands 0 times" in misplaced(lost)
