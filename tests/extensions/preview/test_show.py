"""The command `show`: its lines and pictures say what an objective makes of a text."""

import re
from collections import Counter

import pytest

from clozeline.command_line import read_words
from clozeline.extensions.preview import corrupt_text
from clozeline.extensions.preview.attention_picture import attention_grids
from clozeline.extensions.preview.commands.show import ShowSettings, show
from clozeline.extensions.preview.commands.show import main as show_main
from clozeline.pipeline.registries import OBJECTIVES
from tests.contracts import contract
from tests.refusals import refused

TEXT = "Hard work leads to success, and success brings happiness."


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
    assert "a=3" in str(shown_of("masked_lm", "text=a=3 is what it says.")).replace(" ", "")


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


def test_mistakes_end_in_one_message(capsys):
    for words, said in (
        (["masked_lm", "It rains. " * 30, "picture=p.svg"], "at most 64 tokens, got 9"),
        (["masked_ml"], "did you mean 'masked_lm'?"),
    ):
        assert show_main(words) == 64
        assert said in capsys.readouterr().err


def test_the_seed_draws_the_part_of_a_mixture_and_a_label_names_it():
    """The parts of UL2 are drawn equally often; the variant never changes the part."""
    mixture = OBJECTIVES.resolve("mixture")
    labels = [entry.label for entry in mixture.options.parts]
    drawn = Counter(
        int(corrupt_text("mixture", TEXT, seed=seed).example.fixed["part"]) for seed in range(350)
    )
    assert sorted(drawn) == [*range(len(labels))]
    # 50 draws of each part, with a standard deviation of 6.5
    assert all(abs(count - 50) < 26 for count in drawn.values())
    kept = {
        int(corrupt_text("mixture", TEXT, seed=3, variant=variant).example.fixed["part"])
        for variant in range(20)
    }
    assert len(kept) == 1

    for label in labels:
        words = str(shown_of("mixture", TEXT, f"part={label}")).split()
        assert f"[{label[0]}]" in words
    with refused("part: it has R1, R2, S"):
        shown_of("mixture", TEXT, "part=Q")
    with refused("no parts"):
        shown_of("masked_lm", TEXT, "part=R1")


def test_a_special_token_that_the_user_types_is_said_to_be_plain_text(capsys):
    assert show_main(["masked_lm", "I love [MASK] cake"]) == 0
    said = capsys.readouterr().err
    assert "[MASK] in the text is plain text" in said
    choose = re.search(r"choose='(.*)'", said)[1]
    assert show_main(["masked_lm", "I love chocolate cake on Sundays", f"choose={choose}"]) == 0
    # the separator of a packed row is not typed
    assert show_main(["mixture", "I love cake", "parts=[{name: masked_lm}]"]) == 0
    assert not capsys.readouterr().err
