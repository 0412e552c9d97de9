"""What several files of tests share."""

import pytest

from properties.cells import CELLS
from properties.corpus import PROFILES, corpus_of


@pytest.fixture(scope="session")
def gate_corpora():
    """What the gate profile judges, cell by cell: drawn once a process."""
    profile = PROFILES["gate"]
    return {cell: corpus_of(cell, profile.draws_per_cell, profile.seed) for cell in CELLS}
