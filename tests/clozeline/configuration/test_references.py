"""References between keys, and to variables of the environment: which are allowed."""

import pytest
import yaml

from clozeline.configuration.overrides import override, parse_yaml
from clozeline.configuration.references import find_wrong_reference
from clozeline.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("HIDDEN_KEY", "hush-hush-value")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("corpus: ${oc.env:HIDDEN_KEY}", "corpus: .*HIDDEN_KEY"),
        ("corpus: x-${oc.env:HIDDEN_KEY}-y", "corpus: .*HIDDEN_KEY"),
        ("corpus: ${oc.env:HIDDEN_KEY,none}", "corpus: .*oc.env:HIDDEN_KEY"),
        ("list: [1, {deep: '${oc.env:HIDDEN_KEY}'}]", "list.1.deep: "),
        ("output: ${HOME}", "output: .*variables of the shell"),
        ("output: ${HOME}/runs", "output: .*variables of the shell"),
        ("corpus: ${oc.decode:'[1]'}", "corpus: .*oc.decode"),
        ("corpus: '${oc.dict.values:store}'", "corpus: .*oc.dict"),
        ("corpus: '${data.${name}}'\nname: x", "corpus: .*another reference"),
        (
            "store: {fsspec: {secret: '${oc.env:HIDDEN_KEY}'}}\ncorpus: '${store.fsspec.secret}'",
            "corpus: .*a secret",
        ),
        (
            "store: {fsspec: {key: '${oc.env:HIDDEN_KEY}'}}\ncorpus: {copy: '${store.fsspec}'}",
            "corpus.copy: .*a secret",
        ),
        (
            "store: {fsspec: {key: '${oc.env:HIDDEN_KEY}'}}\ncorpus: '${store}'",
            "corpus: .*a secret",
        ),
    ],
)
def test_a_reference_that_copies_what_is_not_in_the_file_is_refused_by_its_key(text, named):
    data = parse_yaml(text)
    with pytest.raises(ConfigurationError, match=f"FILE: {named}") as refused:
        override(dict, data, [], "FILE")
    assert "hush" not in str(refused.value)


def test_a_reference_on_the_command_line_is_refused_there():
    with pytest.raises(ConfigurationError, match=r"command line: corpus: .*HIDDEN_KEY"):
        override(dict, {"corpus": "a"}, ["corpus=${oc.env:HIDDEN_KEY}"], "FILE")


def test_keys_of_the_file_and_variables_in_secrets_are_read():
    text = """
    data: {folder: sets, shards: "${data.folder}/train"}
    store: {fsspec: {key: "${oc.env:HIDDEN_KEY}", client: {password: "Bearer ${oc.env:HIDDEN_KEY}"}}}
    """

    assert override(dict, parse_yaml(text), [], "FILE") == {
        "data": {"folder": "sets", "shards": "sets/train"},
        "store": {
            "fsspec": {"key": "hush-hush-value", "client": {"password": "Bearer hush-hush-value"}}
        },
    }


def test_text_without_references_is_kept():
    plain = {
        "price": "$5 {net}",
        "glob": "a/{b,c}/*.txt",
        "empty": "$",
        "nested": [{"x": "}${"[:1]}],
    }

    assert find_wrong_reference(plain) is None
    assert override(dict, yaml.safe_load(yaml.safe_dump(plain)), [], "FILE") == plain
