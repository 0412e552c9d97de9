"""Implementations are looked up by name or as `module:object`."""

import pytest

from impl import UnknownImplementation, load
from impl.configurator import create_memory_pool_configurator
from impl.optimized import Configurator
from spec.advice import at_fraction
from spec.model import FULL, AttentionShape, Heads, Scenario

SCENARIO = Scenario(AttentionShape((FULL,), Heads(1, 8, 8)), (10_000,), page_size=4)


@pytest.mark.parametrize("name", ["spec", "configurator"])
def test_built_in_implementations_answer_everything_they_are_asked(name):
    """Size, constraint, draft, allocation."""
    implementation = load(name)
    assert implementation.name == name
    assert implementation.supports(SCENARIO) is None
    sizes = implementation.size_pools(SCENARIO)
    assert implementation.size_pools_from_max_tokens(SCENARIO, sizes.max_total_num_tokens) == sizes
    assert implementation.resolve_draft(SCENARIO) is None
    assert implementation.allocated_bytes(SCENARIO, sizes) == ((sizes.max_total_num_tokens + 4) * 32,)


def test_a_module_and_object_is_loaded():
    """A class is instantiated, an instance taken as it is."""
    assert isinstance(load("impl.optimized:Configurator"), Configurator)
    assert load("tests.test_implementations:INSTANCE") is INSTANCE


INSTANCE = Configurator()
NOT_AN_IMPLEMENTATION = object()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("configurater", "neither one of spec, configurator, batched, sglang nor module:object"),
        ("no.such.module:Thing", "cannot be loaded"),
        ("impl.optimized:Nothing", "cannot be loaded"),
        (
            "tests.test_implementations:NOT_AN_IMPLEMENTATION",
            "supports, size_pools, size_pools_from_max_tokens",
        ),
    ],
)
def test_what_cannot_be_loaded_is_said(name, said):
    """By the name that was given."""
    with pytest.raises(UnknownImplementation, match=said) as raised:
        load(name)
    assert repr(name) in str(raised.value)


def test_a_built_configurator_answers_for_another_page_size():
    """On the constraint path as well."""
    built = create_memory_pool_configurator(SCENARIO)
    assert built.calculate_pool_sizes_from_max_tokens(50, 16).max_total_num_tokens == 48


def test_a_fraction_needs_memory_figures():
    """Bytes have no fraction to change."""
    with pytest.raises(TypeError, match="memory figures"):
        at_fraction(SCENARIO, 900)
