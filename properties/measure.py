"""What one implementation does with the witness of each fault and with each pair of the catalog, as JSON: the part of
`properties.matrix` that has a process a release.

    python -m properties.measure --kv-impl sglang --kv-impl-path DIR
"""

import json
from dataclasses import asdict
from typing import Any

from impl import Implementation
from properties.pairs import all_pair_figures, chosen_implementation, parser_of
from properties.witnesses import faults, witness_figures


def measured(implementation: Implementation) -> dict[str, Any]:
    """Both lists, and of whom."""
    return {
        "impl": {"name": implementation.name, "version": implementation.version},
        "witnesses": [asdict(witness_figures(implementation, fault)) for fault in faults()],
        "pairs": [asdict(pair) for pair in all_pair_figures(implementation)],
    }


if __name__ == "__main__":
    print(json.dumps(measured(chosen_implementation(parser_of(__doc__).parse_args())), indent=1))
