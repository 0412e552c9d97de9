"""Laws of the bytes of a row, as claims about all integers, on the price functions themselves.

Whole blocks of 32 elements stand for any dim that the block formats store; layers are counted, not visited, where
their number has no end.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from impl import configurator_prices
from impl.configurator import DefaultPoolConfigurator
from properties.proofs.explore import Inputs
from properties.proofs.mutants import class_of
from properties.proofs.sizing import LAYERS, geometry
from spec import cell
from spec import draft as spec_draft
from spec.laws.base import HOLDS, Broken, Verdict
from spec.layers import ALL_WINDOW_POOL, DEFAULT_POOL, HYBRID_POOL, MLA_POOL
from spec.model import EAGLE, FULL, SWA, AttentionShape, Deployment, Draft, Heads, Index, Latent, Scenario
from spec.pools import bytes_per_token, stage_row_bytes

PriceClaim = Callable[[Inputs, str, str], Verdict]
"""A claim on a pool kind and an implementation."""
DTYPES = ("bf16", "fp8_e4m3", "mxfp8", "fp4_mx_block16")
"""One of each way to store a row of heads."""
BACKEND = "flashinfer"


def equal(term: str, expected: Any, got: Any) -> Verdict:
    """HOLDS where two numbers are equal."""
    return HOLDS if expected == got else Broken(term, expected, got)


def first_broken(*verdicts: Verdict) -> Verdict:
    """The first that is broken."""
    return next((verdict for verdict in verdicts if verdict is not HOLDS), HOLDS)


def price_of_row(implementation: str, shape: AttentionShape, kind: str, ranks: Any, dtype: str) -> Any:
    """One row of one layer on one of `ranks` ranks."""
    if implementation == "spec":
        return cell.layer_row_bytes(shape, kind, ranks, dtype, BACKEND)
    held = shape.swa if kind == SWA else shape.full
    return configurator_prices.row_bytes(held, False, ranks, dtype, BACKEND)


def shape_with(kind: str, full: Any, swa: Any) -> AttentionShape:
    """A target of a pool kind with these geometries, of the layers it has."""
    layers = LAYERS[kind]
    return AttentionShape(layers, full if FULL in layers else None, swa if SWA in layers else None)


def divided_heads(inputs: Inputs, layer: str) -> tuple[Any, Any, Any]:
    """Heads, the ranks they are split over, one of which divides the other, and how many of them a rank holds: an even
    share, or one where ranks outnumber them."""
    fewer = inputs.integer(f"{layer}_fewer", 1)
    if inputs.flag(f"{layer}_outnumbered"):
        return fewer, fewer * inputs.integer(f"{layer}_copies", 2), 1
    share = inputs.integer(f"{layer}_share", 1)
    return fewer * share, fewer, share


def a_rank_holds_its_heads(inputs: Inputs, kind: str, implementation: str) -> Verdict:
    """R1: one of `ranks` ranks prices a row as one rank does that has just its heads. A latent has none to split."""
    if kind == MLA_POOL:
        shape = shape_with(kind, Latent(16 * inputs.integer("latent", 1), 16 * inputs.integer("rope")), None)
        ranks = inputs.integer("ranks", 1)
        prices = [price_of_row(implementation, shape, FULL, count, "bf16") for count in (1, ranks)]
        return equal("bytes of a latent", *prices)
    dims = 32 * inputs.integer("blocks", 1), 32 * inputs.integer("blocks", 1)
    for layer in dict.fromkeys(LAYERS[kind]):
        heads, ranks, held = divided_heads(inputs, layer)
        whole, twin = (shape_with(kind, split, split) for split in (Heads(heads, *dims), Heads(held, *dims)))
        for dtype in DTYPES:
            expected = price_of_row(implementation, twin, layer, 1, dtype)
            got = price_of_row(implementation, whole, layer, ranks, dtype)
            verdict = equal(f"bytes of a {layer} row", expected, got)
            if verdict is not HOLDS:
                return verdict
    return HOLDS


def swapped_fields_cost_the_same(inputs: Inputs, kind: str, implementation: str) -> Verdict:
    """D4: heads halved and dims doubled, K and V swapped, a latent moved to its rope: no row changes its bytes."""
    others: list[tuple[Any, Any]]
    if kind == MLA_POOL:
        latent, rope = 16 * inputs.integer("latent", 1), 16 * inputs.integer("rope")
        others = [(Latent(latent, rope), Latent(latent + rope, 0))]
    else:
        heads, key, value = inputs.integer("heads", 1), 32 * inputs.integer("key", 1), 32 * inputs.integer("value", 1)
        others = [
            (Heads(2 * heads, key, value), Heads(heads, 2 * key, 2 * value)),
            (Heads(heads, key, value), Heads(heads, value, key)),
        ]
    return first_broken(
        *(
            equal(
                f"bytes of a {layer} row in {dtype}",
                price_of_row(implementation, shape_with(kind, one, one), layer, 1, dtype),
                price_of_row(implementation, shape_with(kind, other, other), layer, 1, dtype),
            )
            for layer in dict.fromkeys(LAYERS[kind])
            for dtype in DTYPES
            for one, other in others
        )
    )


def matching_draft_costs_its_layers(inputs: Inputs, kind: str, implementation: str) -> Verdict:
    """D2: where each of L target layers, and each draft layer of its own, has b bytes a row, the layer ratio prices a
    draft of m layers at m * b (times `attn_dcp_size`): what its own geometry sums up to."""
    layers, target_layers, dcp = inputs.integer("m"), inputs.integer("L", 1), 1
    if kind in (DEFAULT_POOL, MLA_POOL):
        dcp = inputs.integer("dcp", 1)
    layer_bytes = inputs.integer("b", 1)
    ratio = spec_layer_ratio if implementation == "spec" else configurator_layer_ratio
    return equal("draft term", dcp * layers * layer_bytes, ratio(kind, target_layers, layers, dcp, layer_bytes))


def spec_layer_ratio(kind: str, target_layers: Any, layers: Any, dcp: Any, layer_bytes: Any) -> Any:
    """What the fallback of `spec/draft.py` says."""
    scenario = Scenario(shape_with(kind, geometry(kind), Heads(1, 1, 1)), (1,), deployment=Deployment(1, 1, dcp))
    draft, held = Draft(scenario.target), object()

    def count(counted: object) -> Any:
        return target_layers if counted is held else layers

    given: dict[str, Any] = {
        "len": count,
        "kv_positions": lambda shape, positions: held,
        "stage_positions": lambda scenario, stage: held,
        "target_full_row_bytes": lambda scenario, positions: target_layers * layer_bytes,
        "layer_row_bytes": lambda *_: layer_bytes,
    }
    with patch.multiple(spec_draft, create=True, **given):
        if kind in (DEFAULT_POOL, MLA_POOL):
            return spec_draft.layer_ratio_price(scenario, draft, 0).full
        return spec_draft.target_layer_price(scenario, draft).full


def configurator_layer_ratio(kind: str, target_layers: Any, layers: Any, dcp: Any, layer_bytes: Any) -> Any:
    """What the fallback of a configurator says, which counts layers."""
    configurator = class_of(kind).__new__(class_of(kind))
    counts = (0, target_layers, 0) if kind == ALL_WINDOW_POOL else (target_layers, 0, 0)
    configurator._stage_kinds = (counts,)
    configurator._full_row_bytes = configurator._swa_row_bytes = layer_bytes
    configurator._index_row_bytes = configurator._workspace_bytes = 0
    configurator._dcp = dcp
    return configurator._layer_ratio_bytes(0, layers)


def replicated_scenario(inputs: Inputs, kind: str, dcp: Any) -> Scenario:
    """A target with an index and a draft, on `ranks` ranks of heads for each DCP rank: the same heads, the target's
    and the draft's, on a rank whatever `dcp` is."""
    ranks, heads, dim = inputs.integer("ranks", 1), inputs.integer("heads", 1), inputs.integer("dim", 1)
    index = Index(128 * inputs.integer("index", 1), (0,))
    full = Latent(dim, dim) if kind == MLA_POOL else Heads(ranks * heads, dim, dim)
    return Scenario(
        AttentionShape((FULL,), full, index=index),
        (1,),
        draft=Draft(AttentionShape((FULL, FULL), Heads(ranks * dcp * heads, dim, dim))),
        speculative_algorithm=EAGLE,
        deployment=Deployment(ranks * dcp, 1, dcp),
        page_size=inputs.integer("P", 1),
        kv_cache_dtype="bf16",
    )


def price_of_page(implementation: str, kind: str, scenario: Scenario) -> Any:
    """Bytes of one page of a scenario without window pools."""
    if implementation == "configurator":
        return DefaultPoolConfigurator(scenario, 1, 0)._stage_costs[0][1]
    ratio = scenario.swa_full_tokens_ratio
    return scenario.page_size * bytes_per_token(kind, stage_row_bytes(scenario, 0), ratio)


def replication_is_paid_for(inputs: Inputs, kind: str, implementation: str) -> Verdict:
    """R3: with `dcp` ranks a page costs what it costs on one, and the draft and the index `dcp - 1` times more."""
    dcp = inputs.integer("dcp", 1)
    one, many = replicated_scenario(inputs, kind, 1), replicated_scenario(inputs, kind, dcp)
    bare = replace(one, target=replace(one.target, index=None), speculative_algorithm=None)
    price, bare_price = price_of_page(implementation, kind, one), price_of_page(implementation, kind, bare)
    kept_on_every_rank = price - bare_price
    got = price_of_page(implementation, kind, many)
    return equal("bytes of a page", bare_price + dcp * kept_on_every_rank, got)


def no_layers_cost_nothing(inputs: Inputs, kind: str, implementation: str) -> Verdict:
    """D1: a draft of no layers has no bytes, by its own geometry, its workspace included, or by the layer ratio."""
    dims = inputs.integer("head_dim", 1), inputs.integer("v_head_dim", 1)
    draft = Draft(AttentionShape((), Heads(inputs.integer("heads", 1), *dims)), kv_cache_dtype="nvfp4")
    dcp = inputs.integer("dcp", 1)
    scenario = Scenario(
        shape_with(kind, geometry(kind), Heads(1, 1, 1)),
        (1,),
        draft=draft,
        speculative_algorithm=EAGLE,
        deployment=Deployment(dcp, 1, dcp),
        kv_cache_dtype="bf16",
    )
    target_layers, layer_bytes = inputs.integer("L", 1), inputs.integer("b")
    if implementation == "spec":
        price = spec_draft.exact_draft_price(scenario, draft)
        own, ratio = (price.full, price.swa), spec_layer_ratio(kind, target_layers, 0, dcp, layer_bytes)
    else:
        own = configurator_prices.dflash_draft_cell_size_per_token(scenario, draft, dcp, kind == HYBRID_POOL)
        ratio = configurator_layer_ratio(kind, target_layers, 0, dcp, layer_bytes)
    return first_broken(
        equal("D", 0, own[0]), equal("the draft's part of S", 0, own[1]), equal("D by the layer ratio", 0, ratio)
    )


PRICE_CLAIMS: dict[str, tuple[PriceClaim, tuple[str, ...]]] = {
    "R1": (a_rank_holds_its_heads, tuple(LAYERS)),
    "R3": (replication_is_paid_for, (DEFAULT_POOL, MLA_POOL)),
    "D1 rows": (no_layers_cost_nothing, tuple(LAYERS)),
    "D2": (matching_draft_costs_its_layers, tuple(LAYERS)),
    "D4 rows": (swapped_fields_cost_the_same, tuple(LAYERS)),
}
"""Each claim and the pool kinds it is proved for."""
