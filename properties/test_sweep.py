"""The points of the default space (`properties/sweep`), in a run of all laws and cells."""

import pytest

from properties.plugin import CONTEXT


@pytest.mark.sweep
def test_every_point_keeps_the_laws_of_sizes(pytestconfig):
    """Gate: every tenth block, 10**8 points; nightly: all 10**9."""
    from properties.sweep.axes import default_text
    from properties.sweep.command import broken_points, broken_prices, broken_text, check_geometry
    from properties.sweep.run import Sweep, points_of, swept
    from properties.sweep.share import SHARES
    from properties.sweep.swept import implementation_of

    shards = SHARES[pytestconfig.stash[CONTEXT].profile_name]
    sweep = Sweep(points_of(default_text()))
    prices = check_geometry(sweep.points, 0, shards)
    result = swept(sweep, 0, shards)
    wrong = broken_prices(prices) + broken_points(sweep, result, "python -m properties sweep")
    if wrong:
        sizing = implementation_of(sweep.formulas)
        pytest.fail("\n\n".join(broken_text(*finding, sizing) for finding in wrong), pytrace=False)
    assert result.judged >= 10**9 // shards and result.samples >= 1000
