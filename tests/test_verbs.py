"""`python -m properties VERB`: which verbs there are, and what a wrong one says."""

import sys
from types import SimpleNamespace

import pytest

from properties import verbs


def test_a_verb_gets_its_options_and_gives_the_exit_code(monkeypatch):
    given = []
    monkeypatch.setitem(sys.modules, "a_verb", SimpleNamespace(main=lambda options: given.extend(options) or 3))
    monkeypatch.setitem(verbs.VERBS, "try", "a_verb")
    assert verbs.main(["try", "--help", "one", "--two=3"]) == 3
    assert given == ["--help", "one", "--two=3"]


@pytest.mark.parametrize("arguments", [[], ["no-such-verb"], ["--no-such-option"]])
def test_an_unknown_verb_is_a_usage_error(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        verbs.main(arguments)
    assert ended.value.code == pytest.ExitCode.USAGE_ERROR
    assert "python -m properties: error: " in capsys.readouterr().err


def test_every_verb_has_a_module_with_a_main():
    for module in verbs.VERBS.values():
        assert callable(__import__(module, fromlist=["main"]).main)
