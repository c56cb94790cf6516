"""Words of a tool against what --help lists."""

from __future__ import annotations

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Decoding
from clozeline.tools.command import IntermixedArguments, add_settings, settings_of
from clozeline.tools.runs.inference.generation import Settings


def test_a_key_of_two_schemas_is_listed_once() -> None:
    parser = IntermixedArguments("A tool.")
    parser.add_argument("run")
    add_settings(parser, Settings, Decoding)
    listed = [line.split(":")[0].strip() for line in (parser.epilog or "").splitlines()[1:] if line.startswith("  ")]
    assert listed.count("max_tokens") == 1
    assert {"samples", "top_p"} <= {*listed}
    assert parser.parse_args(["runs/own", "mode=sample", "top_p=0.9"]).overrides == ["mode=sample", "top_p=0.9"]


def test_words_become_settings_or_one_message() -> None:
    assert settings_of(Settings, ["mode=sample", "top_p=0.9"]).top_p == 0.9
    with pytest.raises(ConfigurationError, match=r"command line: .*top_k"):
        settings_of(Settings, ["mode=sample", "top_k=many"])
