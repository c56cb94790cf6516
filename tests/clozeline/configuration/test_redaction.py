"""Secrets are recognized, and neither data nor text shows one."""

from pathlib import Path

import pytest
import yaml

from clozeline.command import run_command
from clozeline.configuration.config import load_config, save_yaml
from clozeline.configuration.described_keys import describe
from clozeline.configuration.redaction import (
    MASK,
    is_secret,
    redact,
    redact_text,
    remember,
    without_masks,
)
from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import EXTRACTORS, FILTERS, OBJECTIVES, READERS, TOKENIZERS
from clozeline.pipeline.shards import DamagedBlock, StoreOptions

SECRETS = (
    "secret password passwd token access_key accessKey aws_secret_access_key "
    "AWS_ACCESS_KEY_ID api_key account_key sas_token session-token client_secret "
    "secret_key connection_string credentials Authorization private_key headers Extra-Headers "
    "cookies auth"
).split()
PLAIN = [
    "key",
    "text_key",
    "url_key",
    "tokenizer",
    "tokens",
    "token_dtype",
    "tokens_per_s",
    "keys",
    "monkey",
    "passes",
]


def test_names_of_secrets():
    assert [name for name in SECRETS if not is_secret(name)] == []
    assert [name for name in PLAIN if is_secret(name)] == []
    assert is_secret("key", "fsspec")
    assert not is_secret("key", "exact")


@pytest.mark.parametrize("token", [50.0, {"weight": 50.0, "label_chunk": 8}])
def test_the_head_named_token_is_no_secret(token):
    """The configuration of a run of ELECTRA is read again with both heads."""
    plain = {"model": {"heads": {"masked_lm": 1.0, "token": token}}, "token": "hidden"}

    assert redact(plain) == {**plain, "token": MASK}
    assert redact(measured := {"losses": {"token": 0.31}}) == measured

    remember(plain)

    assert (
        redact_text("model.heads.token=50.0 token=hidden") == f"model.heads.token=50.0 token={MASK}"
    )


def test_no_key_of_a_recipe_is_taken_for_a_secret():
    keys = {key for key, *_ in describe(Recipe)}

    for registry in (OBJECTIVES, FILTERS, READERS, EXTRACTORS, TOKENIZERS):
        for name in registry.available():
            options = getattr(registry.load_class(name), "Options", None)
            # published tokenizers have none
            keys |= {key for key, *_ in describe(options)} if options else set()

    assert len(keys) > 150
    assert [key for key in keys if is_secret(key.split(".")[-1])] == []


def test_data_lose_their_secrets_and_nothing_else():
    plain = {
        "store": {
            "fsspec": {
                "key": "AKIA1",
                "secret": "s",
                "endpoint_url": "https://e:9000/a@b",
                "anon": False,
                "client_kwargs": {"aws_session_token": "t", "region": "eu"},
                "token": {"type": "x"},
            }
        },
        "shards": ["s3://user:p@ss@bucket/set", "http://h:80/x", Path("a")],
        "exact": {"key": "text"},
        "password": 1234,
        "token": None,
        "secret": "",
    }

    assert redact(plain) == {
        "store": {
            "fsspec": {
                "key": MASK,
                "secret": MASK,
                "endpoint_url": "https://e:9000/a@b",
                "anon": False,
                "client_kwargs": {"aws_session_token": MASK, "region": "eu"},
                "token": MASK,
            }
        },
        "shards": [f"s3://{MASK}@bucket/set", "http://h:80/x", Path("a")],
        "exact": {"key": "text"},
        "password": MASK,
        "token": None,
        "secret": "",
    }
    assert without_masks(redact(plain))["shards"][0] == "s3://bucket/set"
    assert "password" not in without_masks(redact(plain))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pw@host/x: no such object", "https://***@host/x: no such object"),
        ("https:/me:pw@host/x, folded by a path", "https:/***@host/x, folded by a path"),
        ("s3://AKIA:a/b+c@bucket/set", "s3://***@bucket/set"),
        ("http://host:80/a@b and git@host", "http://host:80/a@b and git@host"),
        ("argument 'data.store.fsspec.secret=abc'", "argument 'data.store.fsspec.secret=***"),
        ("data.store.fsspec.key=abc x.key=abc", "data.store.fsspec.key=*** x.key=abc"),
        (
            "got {'secret': 'a b', \"token\": 12, 'x_key': 'y'}",
            "got {'secret': ***, \"token\": ***, 'x_key': 'y'}",
        ),
        ("fsspec.token: expected a text", "fsspec.token: expected a text"),
        (
            "GET /x?page=1&code=abc&id=2 of /lr=1;seed=2",
            "GET /x?page=1&code=***&id=2 of /lr=1;seed=2",
        ),
    ],
)
def test_texts(text, shown):
    assert redact_text(text) == shown


def test_a_secret_that_was_read_is_in_no_text_afterwards():
    remember(
        {
            "fsspec": {"key": "AKIAREAD", "token": {"private_key": "-----\nline/two\n-----"}},
            "n": "u://a:wo%72d-1@h?sig=very-secret-9&kind=csv&name=harmless-name",
        }
    )

    for form in ("AKIAREAD", "line/two", "line%2Ftwo", "word-1", "wo%72d-1", "very-secret-9"):
        assert form not in redact_text(f"the package says {form}!"), form

        for error in (
            StorageError(f"x {form}"),
            DamagedBlock(f"y/{form}", 1, "a", form),
            IntegrityError(form),
        ):
            assert form not in str(error)

    assert redact_text(rest := "remember the rest, csv and harmless-name") == rest

    remember({"password": "n0pe"})

    assert redact_text("it is n0pe") == f"it is {MASK}", "the shortest"
    # too short, and what is shown in the place of one
    remember({"fsspec": {"key": "the"}, "password": MASK})

    assert redact_text(f"remember the {MASK}") == f"remember the {MASK}"


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("store: {fsspec: {secret: hush-hush", []),
        ("store: {fsspec: 'hush-hush'}", ["store.fsspec.secret=hush-hush"]),
        ("store: {timeout_s: {password: hush-hush}}", []),
        ("{}", ["store.fsspec.secret=${hush-hush"]),
        ("secret: hush-hush\nretries: x", []),
        ("{}", ["--store.fsspec.secret=hush-hush", "retries=no"]),
    ],
)
def test_no_message_of_a_configuration_shows_a_secret(tmp_path, capsys, text, overrides):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert run_command(lambda: load_config(StoreOptions, path, overrides)) == 64
    assert "hush" not in (said := capsys.readouterr().err), said
    assert str(path) in said or "argument" in said or "command line" in said


def test_a_written_configuration_is_read_as_if_its_secrets_were_not_given(tmp_path, monkeypatch):
    """They may come from the environment."""
    path = tmp_path / "config.yaml"
    save_yaml({"retries": 2, "fsspec": {"secret": "hush-hush", "anon": False}}, path)

    assert yaml.safe_load(path.read_text()) == {
        "retries": 2,
        "fsspec": {"secret": MASK, "anon": False},
    }
    assert load_config(StoreOptions, path).fsspec == {"anon": False}
    assert load_config(StoreOptions, path, ["fsspec.secret=given"]).fsspec == {
        "secret": "given",
        "anon": False,
    }

    monkeypatch.setenv("STORE_SECRET", "from-outside")
    path.write_text("fsspec: {secret: '${oc.env:STORE_SECRET}'}")

    assert load_config(StoreOptions, path).fsspec == {"secret": "from-outside"}
    assert redact_text("it is from-outside") == f"it is {MASK}"


@pytest.mark.parametrize(
    ("url", "left"),
    [
        ("https://h/a?page=2&lang=en&Version=3", "https://h/a?page=2&lang=en&Version=3"),
        ("https://h/a?X-Amz-Signature=SE%2FKRET&part=7", "https://h/a?part=7"),
        ("https://h/a?sv=SEKRET&sig=SEKRET/f==&id=1", "https://h/a?id=1"),
        ("https://h/a?auth=SEKRET&jwt=SEKRET;x?SEKRET'SEKRET&page=1", "https://h/a?page=1"),
        ("https://h/a?format=https://i/b?session=SEKRET", "https://h/a?format=https://i/b?"),
        ("https://h/a;jsessionid=SEKRET", "https://h/a;"),
        ("https://h/a?page=1;code=SEKRET", "https://h/a?page=1;"),
        ("https:/h/a#access_token=SEKRET", "https:/h/a#"),
        ("a ?: (?:x|y=z); what?b=c #7=8", "a ?: (?:x|y=z); what?b=c #7=8"),
    ],
)
def test_a_value_in_a_url_is_secret_unless_its_name_is_harmless(url, left):
    assert without_masks(shown := redact([url])[0]) == left
    assert "SEKRET" not in shown + redact_text(f"input {url}: failed")
