"""The command line of a recipe and of its stages."""

import pytest

from clozeline.command import keys_of
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import _ALGORITHMS, main, run_stage
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.miniature import write_corpus, write_recipe


@pytest.mark.parametrize("stage", [None, *all_stages()])
def test_every_stage_lists_the_same_keys(stage, capsys):
    words = ["--help", "all"]

    assert (main(words) if stage is None else run_stage(stage, words)) == 0

    listed = " ".join(capsys.readouterr().out.split())
    for key, kind, _, meaning in keys_of(Recipe, _ALGORITHMS):
        assert f" {key}: " in listed
        assert meaning or "mapping" in kind, key


@pytest.mark.parametrize("stage", all_stages())
def test_the_keys_of_a_stage_are_those_of_all_stages_that_begin_with_its_name(stage):
    found = [*keys_of(Recipe, _ALGORITHMS, only=stage)]
    everything = keys_of(Recipe, _ALGORITHMS)
    assert found == [each for each in everything if each.key.partition(".")[0] == stage]


def test_help_is_short(capsys):
    assert main(["--help"]) == 0

    shown = capsys.readouterr().out

    assert len(shown.splitlines()) <= 60

    for key in ("input", "output", "clean.filters", "corrupt.name", "train_tokenizer.size"):
        assert f"\n  {key}: " in shown

    assert "limits" not in shown
    assert run_stage("dedup", ["--help"]) == 0

    shown = capsys.readouterr().out

    assert "\n  dedup.near.bands: int = 14: " in shown
    assert "train_tokenizer" not in shown


def test_every_mistake_of_a_recipe_is_in_one_message_before_the_first_stage(tmp_path, capsys):
    recipe = write_recipe(
        tmp_path,
        f"""
        corpus: c
        output: {tmp_path}/out
        input: {write_corpus(tmp_path / "in", 5)}
        clean: {{language: {{name: py3langid, keep: [en, enn]}}, sources: {{}}}}
        train_tokenizer: {{}}
        encode: {{}}
        group: {{}}
        corrupt:
          - {{name: masked_lm, max_length: 64}}
          - {{name: span_corruption, label: many, input_length: 2000, mean_noise_span_length: 1.0}}
          - {{name: span_corruption, input_length: 64, noise_density: 1.0}}
          - {{name: text_to_text, input_length: 64, tasks: [{{template: "Say: {{source}}"}}]}}
    """,
    )

    assert main(["--config", str(recipe)]) == 64

    said = capsys.readouterr().err

    assert "clean.language.keep: py3langid does not know the language 'enn'; known: nn, en" in said
    assert (
        "corrupt.1: objective 'many' (span_corruption): a row of 1999 tokens has 300 spans" in said
    )
    assert "corrupt.2: objective 'span_corruption'" in said
    assert "corrupt.3" not in said, "its options need the tokenizer"
    assert (
        main(["--config", str(recipe), "train_tokenizer.size=100", "corrupt.0.max_lengthh=2"]) == 64
    )

    said = capsys.readouterr().err

    assert "command line: train_tokenizer: byte_bpe: size 100 is too small" in said
    assert "unknown key 'max_lengthh'; did you mean 'max_length'" in said
    assert not (tmp_path / "out").exists()


def test_quiet_prints_nothing_but_errors(tmp_path, capsys):
    language = "{language: null, filters: []}"
    recipe = write_recipe(
        tmp_path,
        f"{{corpus: c, output: {tmp_path}/out, input: {write_corpus(tmp_path / 'in', 5)}, clean: "
        f"{language}}}",
    )

    assert main(["--config", str(recipe), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["--config", str(recipe), "--verbose"]) == 0

    out, err = capsys.readouterr()

    assert "report: " in out
    assert "clean: already complete" in err
    assert main(["--config", str(recipe), "--verbose", "--quiet"]) == 64
    assert main(["--config", str(recipe), "--quiet", "seeds=1"]) == 64
    assert "did you mean 'seed'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "part",
    [
        "execution.recipe_actions.print_table",
        "execution.recipe_actions.write_run_report",
        "clean.stage.CleanStage.row",
    ],
)
def test_no_summary_ends_a_run_whose_work_is_done(part, tmp_path, capsys, monkeypatch):
    def broken(*_):
        raise ValueError("Sign not allowed")

    language = "{language: null, filters: []}"
    recipe = write_recipe(
        tmp_path,
        f"{{corpus: c, output: {tmp_path}/out, input: {write_corpus(tmp_path / 'in', 5)}, clean: "
        f"{language}}}",
    )

    with monkeypatch.context() as patch:
        patch.setattr(f"clozeline.pipeline.{part}", broken)

        assert main(["--config", str(recipe)]) == 0

        said = capsys.readouterr().err

        assert "ValueError: Sign not allowed; the outputs of the stages are complete" in said
        assert "Traceback" not in said
        # a failure of the work is told, not the one of its summary alone
        patch.setattr(
            "clozeline.pipeline.clean.stage.CleanStage.check",
            lambda self, counts: broken(),
        )

        assert main(["--config", str(recipe), "seed=5"]) == 1
        assert "'Sign not allowed'" in capsys.readouterr().err

    assert main(["--config", str(recipe)]) == 0
    assert "clean" in capsys.readouterr().out
