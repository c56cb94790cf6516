"""`model: {init_from: DIR}`: the configuration comes from where the weights do."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.configuration.config import load_config, save_yaml, to_data
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.configuration.layer import DropoutConfig
from clozeline.model.layers.vocabulary import table_rows
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.model_source import row_multiple, table_multiple
from tests.extensions.published.peers import saved

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *(f"w{number}" for number in range(45)),
]


def configured(folder, *words):
    path = folder / "train.yaml"
    path.write_text("model: {}\ndata: {shards: x}\noutput: y\n", encoding="utf-8")
    return load_config(TrainConfig, path, words)


@pytest.fixture
def published(tmp_path):
    folder = tmp_path / "published"
    saved(folder, "bert", hidden_act="gelu")
    return folder


def test_the_model_of_a_folder_but_for_keys_that_are_given(tmp_path, published):
    model = replace(read_checkpoint(published).config, init_from=published)

    assert configured(tmp_path, f"model.init_from={published}").model == model

    changed = configured(
        tmp_path, f"model.init_from={published}", "model.dropout={hidden: 0.25}"
    ).model

    assert changed == replace(model, dropout=DropoutConfig(hidden=0.25))


def test_what_a_run_wrote_is_read_without_its_source(tmp_path, published):
    config = configured(tmp_path, f"model.init_from={published}")
    run = tmp_path / "run"
    run.mkdir()
    save_yaml(to_data(config), run / "config.yaml")
    published.rename(tmp_path / "elsewhere")

    assert load_config(TrainConfig, run / "config.yaml") == config
    assert configured(tmp_path, f"model.init_from={run}").model == replace(
        config.model, init_from=run
    )


@pytest.mark.parametrize("content", [None, "", "model: 3\n"])
def test_refused(tmp_path, content):
    folder = tmp_path / "source"
    if content is not None:
        folder.mkdir()
        (folder / "config.yaml").write_text(content, encoding="utf-8")

    with pytest.raises(ConfigurationError, match=r"model\.init_from: .*source.*expected"):
        configured(tmp_path, f"model.init_from={folder}")


@given(st.integers(1, 300_000), st.integers(1, 512).map(lambda number: 8 * number))
def test_a_multiple_that_pads_to_the_rows_is_found(size, multiple):
    rows = table_rows(size, multiple)
    first = (
        [1 << power for power in range(13)],
        range(8, 4097, 8),
        range(1, min(4096, rows // 100) + 1),
    )

    fits = [
        number for numbers in first for number in numbers if -(-size // number) * number == rows
    ]

    assert row_multiple(rows, size) == fits[0]
    assert table_rows(size, fits[0]) == rows


@pytest.mark.parametrize(
    ("rows", "size", "multiple"),
    [
        *(
            (50304, 50257, 64),
            (50257, 50257, 1),
            (50400, 50257, 144),
            (40, 50, None),
            (99_991, 50, None),
        ),
        *(
            (151_936, 151_646, 1187),
            (152_064, 151_665, 512),
            (51_200, 50_295, 1024),
        ),
    ],
)
def test_the_smallest_power_of_two_comes_first(rows, size, multiple):
    assert row_multiple(rows, size) == multiple


def test_a_configuration_from_a_folder_pads_as_its_model_does(tmp_path):
    from clozeline.extensions.published.commands.import_model import main

    published = tmp_path / "published"
    saved(published, "bert", hidden_act="gelu", vocab_size=64)

    assert table_multiple(published, 64) == 1, "it has no tokenizer"

    (published / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")

    assert main([str(published), str(tmp_path / "imported")]) == 0

    for source in (published, tmp_path / "imported"):
        assert configured(tmp_path, f"model.init_from={source}").model.vocab_multiple == 16

    assert (
        configured(
            tmp_path, f"model.init_from={source}", "model.vocab_multiple=64"
        ).model.vocab_multiple
        == 64
    )
