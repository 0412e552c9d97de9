"""Writes `spec/explain/gallery.json`: for each law the faults that it must see, each with a scenario that shows it.

    python -m tests.gallery

The spec imports nothing of `impl/`, where the faults are, so what it tells of them is data; a test compares the two.
"""

import json
import re
import sys
from fractions import Fraction
from pathlib import Path

import spec.model
from impl.faults import FAULTS
from impl.optimized import Configurator
from properties.judge import verdict
from properties.show import answer_text, figure, paste_able
from spec.accounting import sold_bytes
from spec.explain.law import GALLERY
from spec.laws import BY_ID
from spec.laws.base import Broken
from spec.model import PoolSizes
from tests.fault_examples import EXAMPLES

MATRIX = Path(__file__).with_name("kill_matrix.md")


def shrunk():
    """Fault -> the counterexample in which its hunt ended (`kill_matrix.md`)."""
    rows = re.findall(r"^\| (\w+) \|(?: [\w ]+ \|){4} `(Scenario\(.*\))` \|$", MATRIX.read_text("utf-8"), re.MULTILINE)
    names = {**vars(spec.model), "Fraction": Fraction}
    return {fault: eval(text, names) for fault, text in rows}


def size(scenario):
    """How large a counterexample is: bytes, then length of its call."""
    budget = scenario.budget
    total = sum(budget) if isinstance(budget, tuple) else budget.free_before_load[0][0]
    return total, len(paste_able(scenario))


def bars(scenario, answers):
    """Bytes of the rank that is worst off: available, then those of each answer; none where one is refused."""
    if not isinstance(scenario.budget, tuple) or not all(isinstance(answer, PoolSizes) for answer in answers):
        return []
    stages = range(scenario.deployment.pp_size)
    taken = [[sold_bytes(scenario, answer, stage) for answer in answers] for stage in stages]
    worst = max(stages, key=lambda stage: taken[stage][1] - scenario.budget[stage])
    return [scenario.budget[worst], *taken[worst]]


def answer_of(implementation, scenario):
    """An answer, or what was raised in its place: a fault may crash."""
    try:
        return implementation.size_pools(scenario)
    except AssertionError as error:
        return f"{type(error).__name__}: {error}"


def entry(law_id, fault, scenario, broken):
    """One fault beside one law."""
    what, *story = (" ".join(part.split()) for part in fault.__doc__.split("\n\n"))
    answers = [answer_of(implementation, scenario) for implementation in (Configurator(), fault())]
    return {
        "law": law_id,
        "fault": fault.__name__,
        "what": what,
        "story": " ".join(story),
        "scenario": paste_able(scenario),
        "broken": f"{broken.term}: expected {figure(broken.expected)}, got {figure(broken.got)}",
        "where": broken.where,
        "right": answer_text(answers[0]),
        "wrong": answer_text(answers[1]),
        "bytes": bars(scenario, answers) if answers[0] != answers[1] else [],
    }


def name_only(law_id, fault):
    """A fault that the law finds in a hunt, and on none of these scenarios; it comes last."""
    return {"law": law_id, "fault": fault.__name__, "what": " ".join(fault.__doc__.split("\n\n")[0].split())}


def rank(found, scenario):
    """What is shown first: two different sizes, then two different answers, then the smaller scenario."""
    return False, not found["bytes"], found["right"] == found["wrong"], size(scenario)


def best(law_id, fault, scenarios):
    """The clearest scenario on which the law breaks, with its rank; nothing where it breaks on none."""
    broken = [(one, verdict(BY_ID[law_id], fault(), one)[0]) for one in scenarios]
    found = [(one, entry(law_id, fault, one, what)) for one, what in broken if isinstance(what, Broken)]
    return min(((rank(told, one), told) for one, told in found), key=lambda ranked: ranked[0], default=None)


def entries():
    """Every law with the faults that must break it, each on the clearest scenario: its own, else one of another."""
    ends, found = shrunk(), []
    others = [*EXAMPLES.values(), *ends.values()]
    for fault in FAULTS:
        own = [given[fault.__name__] for given in (EXAMPLES, ends) if fault.__name__ in given]
        for law_id in fault.caught_by:
            ranked = best(law_id, fault, own) or best(law_id, fault, others)
            found.append((list(BY_ID).index(law_id), *(ranked or ((True,), name_only(law_id, fault)))))
    return [told for _, _, told in sorted(found, key=lambda one: one[:2])]


def text():
    """The file."""
    lines = ",\n".join(json.dumps(one) for one in entries())
    return f"[\n{lines}\n]\n"


def main():
    """Writes it."""
    GALLERY.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
