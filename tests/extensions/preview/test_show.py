"""The command `show`: its lines, pages and pictures say what an objective makes of a text."""

import pytest

from clozeline.command_line import read_words
from clozeline.extensions.preview import corrupt_text
from clozeline.extensions.preview.attention_picture import attention_grids
from clozeline.extensions.preview.commands.show import ShowSettings, show
from clozeline.extensions.preview.commands.show import main as show_main
from clozeline.pipeline.registries import OBJECTIVES
from tests.contracts import contract
from tests.pages import checked
from tests.pipeline.tokenize.tokenizers.test_tokenizer import trained


@contract(OBJECTIVES)
def test_every_objective_shows_the_sample_text(name, capsys):
    assert show_main([name]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "kitten" in shown


def test_without_an_objective_all_are_listed(capsys):
    assert show_main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{name} " in shown for name in OBJECTIVES.available())


def shown_of(*words):
    """Return what `clozeline show` makes of these words."""
    settings = read_words(ShowSettings, words)
    return show(settings, settings.objective)


def test_settings_and_options_are_those_of_the_call_from_python():
    words = ["mask_rate=0.5", "seed=3", "variant=2"]
    wanted = corrupt_text(
        {"name": "masked_lm", "mask_rate": 0.5}, "It is raining again.", seed=3, variant=2
    )

    assert str(shown_of("masked_lm", "It is raining again.", *words)) == str(wanted)
    assert str(shown_of("masked_lm", "seed=3")) == str(shown_of("seed=3", "masked_lm"))
    assert "a=3" in str(shown_of("masked_lm", "a=3 is what it says.")).replace(" ", "")


def test_a_page_shows_the_pieces_that_a_terminal_shows(tmp_path, capsys):
    for name in ("byte_bpe", "unigram", "wordpiece"):
        trained(name, tmp_path / name)

        page = tmp_path / f"{name}.html"
        words = ["masked_lm", "The cat sat on the mat.", f"tokenizer={tmp_path / name}"]
        assert show_main([*words, f"html={page}"]) == 0
        words = checked(page.read_text(encoding="utf-8"), scripts=3).texts
        assert capsys.readouterr().out.split("input")[1].split("labels")[0].split()[0] in words


def test_the_partner_of_a_sentence_is_from_the_other_documents(capsys):
    words = ["It rains. It pours.", "others=[Owls sleep., Owls hunt.]", "seed=2"]
    assert show_main(["next_sentence_prediction", *words]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["partner"] in ("Owls sleep .", "Owls hunt .")
    assert {"[CLS]", "It", "[SEP]"} <= set(lines["input"].split())


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["masked_lm", "grouping=document"], "111111 111111 111111 111111 111111 111111"),
        (["causal_lm", "grouping=document"], "10000 11000 11100 11110 11111"),
        (
            ["masked_lm", "grouping=document", "attention=right_to_left"],
            "111111 011111 001111 000111 000011 000001",
        ),
        (["prefix_lm", "variant=1", "grouping=document"], "11000 11000 11100 11110 11111"),
        # [CLS] and [SEP] are context, and the order of the other four is 1, 4, 3, 2
        (
            ["permuted_lm", "variant=1", "grouping=document", "prediction_rate=1"],
            "100001 100001 110111 110011 110001 100001",
        ),
    ],
)
def test_a_picture_shows_what_each_position_reads(words, rows):
    (grid,) = attention_grids(shown_of(words[0], "It is raining.", *words[1:]))
    assert rows_of(grid) == rows.split()


def rows_of(grid):
    return ["".join(str(int(cell)) for cell in row) for row in grid.reads]


def test_the_picture_of_an_encoder_decoder_has_three_grids(tmp_path):
    """The decoder reads its earlier positions, and all of the encoder's; documents stay apart."""
    words = ["input_length=64", "noise_density=0.5", "mean_noise_span_length=2"]
    shown = shown_of("span_corruption", "It is raining.", *words)
    source = shown.codec.words(shown.example["input_ids"].tolist())
    target = shown.codec.words(shown.example["target_ids"].tolist())

    encoder, decoder, cross = attention_grids(shown)

    assert list(encoder.rows) == list(encoder.columns) == list(cross.columns) == source
    assert (
        list(decoder.rows) == list(decoder.columns) == list(cross.rows) == ["[PAD]", *target[:-1]]
    )
    assert rows_of(encoder) == ["1" * len(source)] * len(source)
    assert rows_of(decoder) == [
        "1" * n + "0" * (len(target) - n) for n in range(1, len(target) + 1)
    ]
    assert rows_of(cross) == ["1" * len(source)] * len(target)

    picture = tmp_path / "t5.svg"
    assert show_main(["span_corruption", "It is raining.", *words, f"picture={picture}"]) == 0
    assert picture.read_text().count("<rect") == sum(
        grid.reads.numel() for grid in (encoder, decoder, cross)
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["masked_lm", "It rains. " * 30, "picture=p.svg"],
            "an example of at most 64 tokens, got 9",
        ),
        (["masked_ml"], "did you mean 'masked_lm'?"),
        (
            ["masked_lm", "It rains.", "mask_rat=0.3"],
            "unknown key 'mask_rat'; did you mean 'mask_rate'?",
        ),
        (["translation_lm", "It rains."], "give the other side as `target`"),
        (["sentence_reordering", "One sentence."], "write at least 2 sentences; the text has one"),
        (["masked_lm", " "], "the text is empty"),
    ],
)
def test_mistakes_end_in_one_message(words, said, capsys):
    assert show_main(words) == 64
    error = capsys.readouterr().err
    assert said in error
