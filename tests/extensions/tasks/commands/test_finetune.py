"""Fine-tuning with several seeds: the whole chain on a small body, continued, and refused."""

import json

import pytest

from clozeline.configuration.config import config_file
from clozeline.extensions.evaluation.commands.evaluate import EvaluateOptions, score_task
from clozeline.extensions.tasks.commands.finetune import (
    FinetuneOptions,
    finetune,
    frame_overrides,
    main,
)
from clozeline.pipeline.shards import open_shards
from clozeline.train.checkpoint.trained_model import read_config
from tests.extensions.tasks.task_runs import body_and_recipe
from tests.refusals import refused


@pytest.mark.slow
def test_the_whole_chain(one_rank, tmp_path, capsys):
    """A second call with more seeds runs those alone.

    Another start of the body is another folder.
    """
    output = tmp_path / "out"
    files, words = body_and_recipe(one_rank, tmp_path, steps=4)

    assert main([*words, f"output={output}", "seeds=1", "log.tensorboard=false"]) == 0

    scored = (output / "scores/seed-0.json").stat()
    written = (output / "seed-0/metrics.jsonl").stat()
    capsys.readouterr()

    assert main([*words, f"output={output}", "seeds=2", "log.tensorboard=false"]) == 0
    assert (output / "scores/seed-0.json").stat() == scored
    assert (output / "seed-0/metrics.jsonl").stat() == written

    printed = capsys.readouterr().out

    assert "sst2 dev, 21 texts, 21 also in train, 2 runs (seeds 0, 1)" in printed

    for seed in range(2):
        held = json.loads((output / "scores" / f"seed-{seed}.json").read_text())["scores"]
        assert held == json.loads(score_task(EvaluateOptions(run=output / f"seed-{seed}"))[0])
        assert read_config(output / f"seed-{seed}").seed == seed
        predicted = (output / "scores" / f"seed-{seed}.predictions.jsonl").read_text().splitlines()
        right = [row["label"] == row["gold"] for row in map(json.loads, predicted)]
        assert held["metrics"]["accuracy"] == pytest.approx(sum(right) / 21)

    assert (
        main([*words, f"output={output}", "seeds=2", "log.tensorboard=false", "freeze=body"]) == 64
    )
    assert (
        "holds results of other settings: words was ['log.tensorboard=false']"
        in capsys.readouterr().err
    )

    other = tmp_path / "random"
    further = [f"tests={{other: {files}/dev.tsv}}", f"pseudo={files}/dev.tsv"]

    assert (
        main(
            [*words, f"output={other}", "seeds=1", "from=random", *further, "log.tensorboard=false"]
        )
        == 0
    )
    assert ["accuracy", "dev", "other", "gap"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]

    shards = read_config(other / "seed-0").data.shards

    assert [path.name for path in shards] == ["train", "train_pseudo"]

    text = (other / "seed-0/config.yaml").read_text()

    assert "init_parts:\n- none\n" in text
    assert main(["--compare", str(output), str(other)]) == 0
    assert f"{other} - {output}: accuracy" in capsys.readouterr().out
    assert main(["--matrix", str(output), str(other)]) == 0

    _, first, second = (line.split() for line in capsys.readouterr().out.splitlines())

    assert first[2:] == ["-", "-"]
    assert second[1] == second[2], "the same file under another name"

    searched = tmp_path / "searched"
    search = "search={steps: [1, 6], optimizer.learning_rate: [0.01]}"

    assert main([*words, f"output={searched}", "seeds=1", search, "log.tensorboard=false"]) == 0

    choice = json.loads((searched / "search/choice.json").read_text())

    assert choice["tried"] == [
        [f"steps={steps}", "optimizer.learning_rate=0.01"] for steps in (1, 6)
    ]
    assert read_config(searched / "seed-0").steps == int(choice["chosen"][0].removeprefix("steps="))

    # the rows that choose are training rows: none of dev
    sets = [open_shards(searched / folder / "sets/tasks/sst2/train") for folder in (".", "search")]

    assert len(sets[1]) < len(sets[0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "BODY, task=..., train=..., output=... are missing"),
        (
            ["BODY", "task=imbd", "train=a", "dev=b", "output=OUT"],
            "did you mean 'recipe:tasks/imdb'?",
        ),
        (
            ["BODY", "task=labels", "train=a", "output=OUT"],
            "dev: expected a file with rows to score, or tasks.split_off",
        ),
        (
            [
                "BODY",
                "task=labels",
                "train=a",
                "output=OUT",
                "tasks.split_off={dev: 0.2}",
                "search={steps: [1]}",
            ],
            "dev=FILE",
        ),
        (["--compare", "BODY"], "expected an output of clozeline finetune with scores"),
    ],
)
def test_mistakes(tmp_path, capsys, words, message):
    """One message, and nothing is made."""
    (tmp_path / "body").mkdir()
    given = [
        word.replace("BODY", f"{tmp_path}/body").replace("OUT", f"{tmp_path}/out") for word in words
    ]

    assert main(given) == 64
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("task", "model", "given", "words"),
    [
        ("rte", "family: encoder", [], []),
        ("rte", "family: decoder", [], ["tasks.frame=gpt1", "tokenizer.add=true"]),
        ("rte", "family: decoder", ["tasks.frame=llama"], []),
        ("rte", "family: encoder_decoder, decoder_layers: 1", [], ["tasks.frame=bart"]),
        (
            "rte",
            "family: encoder_decoder, decoder_layers: 1, position: {kind: t5}",
            [],
            ["tasks.frame=t5"],
        ),
        ("summaries", "family: encoder_decoder, decoder_layers: 1", [], []),
    ],
)
def test_rows_are_those_of_the_body(tmp_path, task, model, given, words):
    """A frame of the recipe, or of the user, for another architecture is the user's to change."""
    sizes = "dim: 8, layers: 1, attention_heads: 2, ffn_dim: 8, heads: {lm: 1.0}"
    (tmp_path / "config.yaml").write_text(f"model: {{{model}, {sizes}}}\n")

    assert (
        frame_overrides(tmp_path, config_file(f"recipe:tasks/{task}", "pipeline.yaml"), given)
        == words
    )


@pytest.mark.parametrize(
    ("search", "words", "message"),
    [
        ({}, ["stps=5"], "unknown key .stps"),
        ({"steps": [6, 5]}, ["schedule.warmup=6"], "warmup: expected at most 5, .* got 6"),
    ],
)
def test_a_wrong_training_is_refused_before_its_sets_are_made(tmp_path, search, words, message):
    (tmp_path / "config.yaml").write_text(
        "model: {family: encoder, dim: 8, layers: 1, attention_heads: 2, ffn_dim: 8, heads: {masked_lm: 1.0}}"
    )
    output = tmp_path / "out"
    files = {"body": tmp_path, "train": output, "dev": output, "output": output}
    given = FinetuneOptions(task="sst2", search=search, words=tuple(words), **files)

    with refused(message):
        finetune(given)

    assert not output.exists()
