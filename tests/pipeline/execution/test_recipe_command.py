"""The command line of a recipe and of its stages."""

import pytest

from clozeline.command import keys_of
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.inputs import list_inputs
from clozeline.pipeline.execution.recipe_command import _ALGORITHMS, main
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.miniature import write_corpus, write_recipe


@pytest.fixture
def words(tmp_path):
    """Words of a run that cleans five documents."""
    recipe = write_recipe(tmp_path, "{corpus: c, clean: {language: null, filters: []}}")
    source = write_corpus(tmp_path / "in", 5)
    return ["--config", str(recipe), f"input={source}", f"output={tmp_path / 'out'}"]


@pytest.mark.parametrize("stage", ["", *all_stages()])
def test_help_lists_the_keys_of_a_stage_or_all_of_them(stage, capsys):
    every = [*keys_of(Recipe, _ALGORITHMS)]
    own = [each for each in every if each.key.partition(".")[0] == stage]

    assert not stage or own == [*keys_of(Recipe, _ALGORITHMS, only=stage)]

    for more, keys in ([], own), (["all"], every):
        assert main([*filter(None, [stage]), "--help", *more]) == 0
        listed = " ".join(capsys.readouterr().out.split())
        assert [each.key for each in keys if f" {each.key}: " not in listed] == []


def test_every_mistake_of_a_recipe_is_in_one_message_before_the_first_stage(
    words, tmp_path, capsys
):
    write_recipe(
        tmp_path,
        """
        corpus: c
        clean: {language: {name: py3langid, keep: [en, enn]}, sources: {}}
        train_tokenizer: {}
        encode: {}
        group: {}
        corrupt:
          - {name: masked_lm, max_length: 64}
          - {name: span_corruption, label: many, input_length: 2000, mean_noise_span_length: 1.0}
          - {name: span_corruption, input_length: 64, noise_density: 1.0}
          - {name: text_to_text, input_length: 64, tasks: [{template: "Say: {source}"}]}
    """,
    )

    assert main(words) == 64

    said = capsys.readouterr().err

    assert "clean.language.keep: py3langid does not know the language 'enn'" in said
    assert (
        "corrupt.1: objective 'many' (span_corruption): a row of 1999 tokens has 300 spans" in said
    )
    assert "corrupt.2: objective 'span_corruption'" in said
    assert "corrupt.3" not in said, "its options need the tokenizer"
    assert main([*words, "train_tokenizer.size=100", "corrupt.0.max_lengthh=2"]) == 64

    said = capsys.readouterr().err

    assert "command line: train_tokenizer: byte_bpe: size 100 is too small" in said
    assert "unknown key 'max_lengthh'; did you mean 'max_length'" in said
    assert not (tmp_path / "out").exists()


def test_quiet_prints_nothing_but_errors(words, tmp_path, capsys):
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([*words, "--verbose"]) == 0

    out, err = capsys.readouterr()

    assert "report: " in out
    assert "clean: already complete" in err

    (path, *_) = (tmp_path / "out/clean/documents").iterdir()
    path.write_bytes(path.read_bytes()[::-1])
    for more, is_kept in ([], True), (["--verify"], False), (["--force", "clean"], False):
        assert main([*words, "--verbose", *more]) == 0
        assert ("already complete" in capsys.readouterr().err) == is_kept

    for wrong in ("--verbose", "seeds=1"):
        assert main([*words, "--quiet", wrong]) == 64
        assert capsys.readouterr().err


def test_inputs_are_listed_once(words, monkeypatch):
    """A store that fails when all work is done ends no run."""
    listed = []

    def count(*arguments):
        listed.append(arguments)
        return list_inputs(*arguments)

    monkeypatch.setattr("clozeline.pipeline.execution.plan.list_inputs", count)

    assert main(words) == 0
    assert len(listed) == 1


@pytest.mark.parametrize(
    "part",
    [
        "execution.recipe_actions.print_table",
        "execution.recipe_actions.write_run_report",
        "clean.stage.CleanStage.row",
    ],
)
def test_no_summary_ends_a_run_whose_work_is_done(part, words, capsys, monkeypatch):
    def broken(*_, **keys):
        raise ValueError("Sign not allowed")

    monkeypatch.setattr(f"clozeline.pipeline.{part}", broken)

    assert main(words) == 0

    said = capsys.readouterr().err

    assert "ValueError: Sign not allowed; the outputs of the stages are complete" in said
    assert "Traceback" not in said

    # a failure of the work is told, not the one of its summary alone
    monkeypatch.setattr("clozeline.pipeline.clean.stage.CleanStage.check", broken)

    assert main([*words, "seed=5"]) == 1
    assert "'Sign not allowed'" in capsys.readouterr().err
