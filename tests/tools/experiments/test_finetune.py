"""Fine-tuning with several seeds: the commands of a call and of a second one, frames of bodies, and refusals."""

from pathlib import Path

import pytest

from clozeline.configuration.config import config_file
from clozeline.errors import ConfigurationError
from clozeline.tools.experiments import finetune as finetuning
from clozeline.tools.experiments.finetune import FinetuneOptions, finetune, frame_words, main
from clozeline.tools.experiments.multirun import runner


def test_sets_are_made_and_each_seed_is_trained_and_scored(tmp_path, monkeypatch, capsys):
    """A search chooses keys on a part of the training rows first; a second call trains further seeds alone."""
    seen, scored, task, out = [], [], tmp_path / "task", tmp_path / "out"
    body = tmp_path / "body"
    files = {name: tmp_path / f"{name}.tsv" for name in ("train", "pseudo", "dev", "de")}

    def step(*command, **_):
        seen.append([str(word) for word in command])
        if command[0] == "python":
            (Path(seen[-1][7].removeprefix("output=")) / "tasks" / "toy" / "train").mkdir(parents=True, exist_ok=True)

    def score(run, split, path):
        scored.append((run, split))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    for module in (finetuning, runner):
        monkeypatch.setattr(module, "run_step", step)
    monkeypatch.setattr(finetuning.finetuning_scores, "score_run", score)
    monkeypatch.setattr(finetuning, "frame_words", lambda body, recipe, given: ["tasks.frame=gpt1"])
    checked, chosen = [], []
    monkeypatch.setattr(finetuning, "check_training", lambda config, words: checked.append(words))
    monkeypatch.setattr(finetuning, "choose_words", lambda *given: chosen.append(given) or (["steps=9"], ["a table"]))
    task.mkdir()
    words = ["tasks.max_length=32", "log.tensorboard=false", "tokenizer.add=true"]
    options = {
        "task": str(task),
        "output": out,
        "from": "embeddings",
        "search": {"steps": [4, 9]},
        "search_share": 0.3,
    }
    options |= {"train": files["train"], "dev": files["dev"], "pseudo": files["pseudo"], "tests": {"de": files["de"]}}
    finetune(body, FinetuneOptions(**options, seeds=1), words)
    finetune(body, FinetuneOptions(**options, seeds=2), words)
    pipeline = ["python", "-m", "clozeline.pipeline", "--config", str(task / "pipeline.yaml")]
    source = {"train": "train", "pseudo": "train_pseudo", "dev": "dev", "de": "test_de"}
    given = {name: f"{{path: {path}, source: {source[name]}}}" for name, path in files.items()}
    stage = ["tasks.frame=gpt1", "tasks.max_length=32", "tokenizer.add=true"]
    own = [f"tokenizer.path={body}", f"output={out / 'sets'}", *stage]
    part = [f"tokenizer.path={body}", f"output={out / 'search' / 'sets'}", *stage, "tasks.carve={dev: 0.3}"]
    sets = [
        [*pipeline, f"input=[{', '.join(given.values())}]", *own],
        [*pipeline, f"input=[{given['train']}, {given['pseudo']}]", *part],
    ]

    def training(folder, seed, *more):
        shards = ", ".join(str(folder / "tasks" / "toy" / split) for split in ("train", "train_pseudo"))
        start = [f"model.init_from={body}", f"data.shards=[{shards}]", f"seed={seed}", f"data.seed={seed}"]
        return [*start, "init_parts=embeddings", "log.tensorboard=false", *more]

    train = [
        ["clozeline", "train", "--config", str(task / "train.yaml"),
         *training(out / "sets", seed, "steps=9", f"output={out / f'seed-{seed}'}")]
        for seed in (0, 1)
    ]  # fmt: skip
    assert seen == [*sets, train[0], *sets, train[1]]
    assert (
        chosen == [(out / "search", task / "train.yaml", training(out / "search" / "sets", 0), {"steps": [4, 9]})] * 2
    )
    assert [words[-2:] for words in checked] == [[f"steps={steps}", f"output={out / 'seed-0'}"] for steps in (4, 9)] * 2
    assert scored == [(out / f"seed-{seed}", split) for seed in (0, 1) for split in ("dev", "test_de")]
    assert {path.relative_to(out / "scores").as_posix() for path in (out / "scores").rglob("*.json")} == {
        f"{folder}seed-{seed}.json" for folder in ("", "test_de/") for seed in (0, 1)
    }
    assert capsys.readouterr().out == "a table\n" * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected BODY and key=value words, or compare=DIR"),
        (["BODY", "task=sst2", "train=a", "dev=b", "output=OUT", "from=half"], "from"),
        (["BODY", "task=sst3", "train=a", "dev=b", "output=OUT"], "did you mean 'recipe:tasks/sst5'"),
        (["BODY", "task=reviews", "train=a", "dev=b", "output=OUT"], "for your own labels, use 'recipe:tasks/labels'"),
        (["BODY", "task=labels", "train=a", "output=OUT"], "dev: expected a file with rows to score, or tasks.carve"),
        (["BODY", "task=labels", "train=a", "output=OUT", "tasks.carve={dev: 0.2}", "search={steps: [1]}"], "dev=FILE"),
        (["--compare", "BODY"], "expected an output of clozeline finetune with scores"),
    ],
)
def test_mistakes(tmp_path, capsys, words, message):
    """One message, and nothing is made."""
    (tmp_path / "body").mkdir()
    given = [word.replace("BODY", str(tmp_path / "body")).replace("OUT", str(tmp_path / "out")) for word in words]
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
        ("rte", "family: encoder_decoder, decoder_layers: 1, position: {kind: t5}", [], ["tasks.frame=t5"]),
        ("summaries", "family: encoder_decoder, decoder_layers: 1", [], []),
    ],
)
def test_rows_are_those_of_the_body(tmp_path, task, model, given, words):
    """A frame of the recipe, or of the user, for another architecture is the user's to change."""
    sizes = "dim: 8, layers: 1, attention_heads: 2, ffn_dim: 8, heads: {lm: 1.0}"
    (tmp_path / "config.yaml").write_text(f"model: {{{model}, {sizes}}}\n", encoding="utf-8")
    assert frame_words(tmp_path, config_file(f"recipe:tasks/{task}", "pipeline.yaml"), given) == words


@pytest.mark.parametrize(
    ("search", "words", "message"),
    [
        ({}, ["stps=5"], "unknown key .stps"),
        ({}, ["steps=5", "schedule.warmup=6"], "warmup: expected at most 5, .* got 6"),
        ({"steps": [6, 5]}, ["schedule.warmup=6"], "warmup: expected at most 5, .* got 6"),
    ],
)
def test_a_wrong_training_is_refused_before_its_sets_are_made(tmp_path, search, words, message):
    body, output = tmp_path / "body", tmp_path / "out"
    body.mkdir()  # as much of a run as a training's configuration reads
    text = "model: {family: encoder, dim: 8, layers: 1, attention_heads: 2, ffn_dim: 8, heads: {masked_lm: 1.0}}\n"
    (body / "config.yaml").write_text(text, encoding="utf-8")
    given = FinetuneOptions(task="sst2", train=tmp_path / "t", dev=tmp_path / "d", output=output, search=search)
    with pytest.raises(ConfigurationError, match=message):
        finetune(body, given, words)
    assert not output.exists()
