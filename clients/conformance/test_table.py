"""The table of scenarios, a test for each row, kind and client."""

from __future__ import annotations

import pytest
from runner import Case, Outcome


def test_row(case: Case, outcomes: dict[Case, Outcome]) -> None:
    outcome = outcomes[case]
    if outcome.failure:
        pytest.fail(outcome.failure, pytrace=False)
