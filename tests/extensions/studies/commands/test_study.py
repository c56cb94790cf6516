"""Studies: equal operations, sets by variant, tables, and a small one from begin to end."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from clozeline.configuration.config import validate
from clozeline.extensions.studies import study_sets
from clozeline.extensions.studies.commands import study as tool
from clozeline.extensions.studies.study_plan import (
    StudySets,
    check_variants,
    load_study,
    plan_training,
)
from clozeline.extensions.studies.study_scores import loss_lines, pair_lines, step_lines
from clozeline.extensions.studies.study_sets import (
    PreparedDocuments,
    make_all_sets,
    parse_named_files,
)
from clozeline.extensions.tasks.finetuning_scores import scores_path
from clozeline.files import publish_json, read_json
from clozeline.model.build import build_model
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from clozeline.tools.start.multirun import runner
from clozeline.train.configuration.config import TrainConfig
from tests.extensions.studies.small_study import write_study, write_walks
from tests.extensions.tasks.test_finetuning_scores import write
from tests.refusals import refused
from tests.train.written_runs import write_run_on


def of_all(sets):
    return StudySets(dict.fromkeys(("plain", "mixed"), sets))


def flops_of_a_row(config, manifest):
    """Return the operations of a mean row of the first block, taken for the set."""
    shards = open_shards(manifest)
    facts = shards.manifest.tokenizer
    model = build_model(config.model, facts.vocab_size, facts.special_ids)
    block = shards.read_block(0)
    lengths, labels = (block.columns[name].lengths.mean() for name in ("input_ids", "label_ids"))
    return model.flops(round(lengths), 0, float(labels))


@pytest.mark.parametrize("name", ["plain", "mixed"])
def test_the_operations_are_those_of_the_study(tmp_path, name):
    folder = write_study(tmp_path)
    sets = write_walks(tmp_path / "sets")
    study, variants = load_study(folder)
    training = plan_training(
        folder, study, (name, variants[name]), of_all(sets), tmp_path / "run", 7
    )
    config = validate(TrainConfig, training.config, "")

    assert (config.seed, config.data.seed, config.steps) == (7, 7, sum(training.steps))

    shares = [part.share for part in variants[name].phases]
    row = flops_of_a_row(config, sets / "one/train")  # both sets have rows of the same lengths
    for steps, share, each in zip(training.steps, shares, training.flops, strict=True):
        assert each == pytest.approx(config.data.global_batch * row, rel=0.01)
        assert abs(steps * each - share * study.flops) <= each / 2

    assert abs(training.total - study.flops) <= sum(training.flops) / 2

    ends = [phase.until_samples for phase in config.data.phases]

    assert ends == [
        *(config.data.global_batch * sum(training.steps[: n + 1]) for n in range(len(ends) - 1)),
        None,
    ]


def test_a_teacher_in_memory_takes_its_forward_passes(tmp_path):
    """A student's step costs its own operations and a third of a training step of the teacher, of
    three layers."""
    folder = write_study(tmp_path)
    sets = write_walks(tmp_path / "sets")
    study, variants = load_study(folder)
    write_run_on(tmp_path / "teacher", sets / "one/train", [1], 1, model__layers=3)
    plain = plan_training(
        folder, study, ("plain", variants["plain"]), of_all(sets), tmp_path / "run", 0
    )
    variants["plain"].train["distil"] = {"teacher": f"{tmp_path}/teacher", "losses": ["scores"]}
    taught = plan_training(
        folder, study, ("plain", variants["plain"]), of_all(sets), tmp_path / "run", 0
    )
    config = validate(TrainConfig, taught.config, "")
    teacher = (
        flops_of_a_row(replace(config, model=replace(config.model, layers=3)), sets / "one/train")
        / 3
    )

    assert taught.flops[0] - plain.flops[0] == pytest.approx(
        config.data.global_batch * teacher, rel=0.01
    )
    assert abs(taught.total - study.flops) <= taught.flops[0] / 2
    assert taught.steps < plain.steps


def test_mistakes_are_named(tmp_path):
    folder = write_study(tmp_path)
    sets = write_walks(tmp_path / "sets")
    study, variants = load_study(folder)

    with refused("less than a step of each part"):
        plan_training(
            folder,
            type(study)(title="x", flops=1.0, variants={}),
            ("mixed", variants["mixed"]),
            of_all(sets),
            tmp_path,
            0,
        )

    wrong = (folder / "study.yaml").read_text().replace("higher: mixed", "higher: none")
    (folder / "study.yaml").write_text(wrong)

    with refused("no variant none with the measure masked; variants: mixed, plain"):
        load_study(folder)

    (folder / "study.yaml").write_text(wrong.replace("share: 0.7", "share: 0.5"))
    with refused("shares that are 1 together"):
        load_study(folder)


def test_a_step_removes_documents_and_gains_nats():
    variants = {"raw": SimpleNamespace(base=None), "filters": SimpleNamespace(base="raw")}
    left = {"raw": PreparedDocuments(8, 1000, 1.0), "filters": PreparedDocuments(6, 500, 3.0)}
    runs = {
        name: [{"losses": {"prose": loss, "leaked": 1.0}}]
        for name, loss in (("raw", 3.5), ("filters", 3.0))
    }
    lines = list(step_lines(variants, runs, left))

    assert [line.split() for line in lines[1:3]] == [
        ["raw", "8"],
        ["filters", "6", "2", "0.500", "+2.0"],
    ]

    gains = {"prose": "+0.500", "leaked": "+0.000"}

    assert lines[3:] == [
        f"{name}: filters gains {gain} (one seed) nats" for name, gain in gains.items()
    ]


STUDY = Path(__file__).parents[4] / "configs/studies/data"
PARTS = yaml.safe_load((STUDY / "study.yaml").read_text())
VARIANTS = {
    "raw": "{phases: [{sets: {causal_lm: 1.0}}], measures: {prose: causal_lm}, pipeline: {}}",
    "exact": "{base: raw, pipeline: {dedup: {exact: {key: text}, near: null}}}",
}


def write_steps(folder, **changes):
    variants = {name: yaml.safe_load(text) for name, text in (VARIANTS | changes).items()}
    pipeline = PARTS["pipeline"] | {"train_tokenizer": {"name": "byte_bpe", "size": 420}}
    parts = {
        "study": {"title": "small", "flops": 1e9, "seeds": 1, "variants": variants},
        "pipeline": pipeline,
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(parts))


@pytest.fixture
def study(tmp_path):
    """Return a study of two steps with a small tokenizer, and texts of which each stands there
    twice."""
    folder = tmp_path / "study"
    folder.mkdir()
    write_steps(folder)
    texts = [
        f"The fox of page {number} met a dog by the river, {number * number} times."
        for number in range(40)
    ]
    (tmp_path / "texts.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts * 2)
    )
    (tmp_path / "prose.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts[:9])
    )
    return folder


def run_pipelines_here(monkeypatch):
    def run_here(*command, **_):
        assert run_pipeline([str(word) for word in command[2:]]) == 0

    monkeypatch.setattr(runner, "run_step", run_here)


def test_each_variant_gets_its_documents_and_all_share_a_tokenizer(study, tmp_path, monkeypatch):
    run_pipelines_here(monkeypatch)
    write_steps(
        study, own="{base: exact, pipeline: {train_tokenizer: {size: 440}}}", same="{base: exact}"
    )
    _, variants = load_study(study)

    assert list(variants) == ["raw", "exact", "own", "same"]  # a base before the steps on it
    assert variants["exact"].measures == variants["raw"].measures

    files = (f"{tmp_path}/texts.jsonl", {"prose": f"{tmp_path}/prose.jsonl"})
    sets = make_all_sets(study, tmp_path / "out", variants, *files)
    folders = sets.variants

    assert [study_sets.count_documents(folders[name].parent).count for name in variants] == [
        80,
        40,
        40,
        40,
    ]
    assert folders["same"] == folders["exact"], "equal pipelines run once"

    heldout = sets.heldout("exact", variants["exact"].measures)

    assert heldout == {"prose": f"{tmp_path}/out/shards/heldout-prose/corrupt/causal_lm/train"}

    tokenizers = {
        open_shards(path).manifest.tokenizer.fingerprint
        for path in (
            *(folders[name] / "causal_lm/train" for name in ("raw", "exact")),
            Path(heldout["prose"]),
        )
    }

    assert len(tokenizers) == 1
    assert (
        open_shards(folders["own"] / "causal_lm/train").manifest.tokenizer.fingerprint
        not in tokenizers
    )


def test_a_heldout_set_has_the_stages_alone_that_say_so(study, tmp_path):
    """Nothing of an extension that a study does not know, such as a stage of an installed one."""
    parts = yaml.safe_load((study / "study.yaml").read_text())
    parts["pipeline"] |= {"word_counts": {}, "dedup": {}, "balance": {"alpha": 0.5}}
    (study / "study.yaml").write_text(yaml.safe_dump(parts))
    info = tmp_path / "mylab-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylab\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[clozeline.extensions]\nmylab = mylab\n")
    mylab = Path(__file__).parents[4] / "docs/mylab"
    script = f"""
from pathlib import Path
from clozeline.extensions.studies import study_sets
from clozeline.extensions.studies.study_plan import load_study
study_sets.PlannedCommand.execute = lambda self: None
folder = Path({str(study)!r})
study_sets.make_all_sets(folder, Path("out"), load_study(folder)[1], "a.txt", {{"prose": "b.txt"}})
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(mylab), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    kept = yaml.safe_load((tmp_path / "out/recipes/heldout-prose.yaml").read_text())
    stages = {name for name in (*all_stages(), "word_counts") if kept.get(name) is not None}

    assert stages == {"clean", "tokenizer", "encode", "group", "corrupt"}


def test_a_variant_reads_its_sources_and_the_sets_of_others(study, tmp_path, monkeypatch):
    run_pipelines_here(monkeypatch)
    both = "{base: raw, phases: [{sets: {raw/causal_lm: 1.0, prose/causal_lm: 3.0}}]}"
    write_steps(
        study,
        raw=VARIANTS["raw"].replace("pipeline", "sources: [texts], pipeline"),
        prose="{base: raw, sources: [prose]}",
        both=both,
    )
    _, variants = load_study(study)
    entries = [
        {"path": str(tmp_path / f"{name}.jsonl"), "source": name} for name in ("texts", "prose")
    ]
    files = (json.dumps(entries), {"prose": f"{tmp_path}/prose.jsonl"})
    sets = make_all_sets(study, tmp_path / "out", variants, *files)
    folders = sets.variants

    assert [
        study_sets.count_documents(folders[name].parent).count for name in ("raw", "prose", "exact")
    ] == [80, 9, 40]

    found = [sets.find("both", name) for name in variants["both"].phases[0].sets]

    assert set(found) == {folders["raw"] / "causal_lm", folders["prose"] / "causal_lm"}

    with refused("expected files of the source texts"):
        make_all_sets(study, tmp_path / "out", variants, f"{tmp_path}/texts.jsonl", files[1])

    write_steps(study, both=both.replace("prose/", "absent/"))
    with refused(r"one of raw, .*, got absent"):
        load_study(study)


def test_words_without_a_use_are_refused(study, tmp_path):
    _, variants = load_study(study)
    with refused(r"expected NAME=FILES, got 'prose'"):
        parse_named_files("heldout", ["prose"])
    with refused(r"give heldout=prose=FILES"):
        make_all_sets(study, tmp_path, variants, "texts", {})
    with refused(r"expected one of prose, got blimp"):
        make_all_sets(study, tmp_path, variants, "texts", {"prose": "a", "blimp": "b"})


def test_wrong_bases_are_refused(study):
    for base, message in (("none", "none is none of"), ("exact", "exact is based on itself")):
        write_steps(study, exact=f"{{base: {base}}}")
        with refused(message):
            load_study(study)


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return the words of a study of two variants, each with scores of two seeds.

    Nothing is made or trained.
    """
    folder = write_study(tmp_path)
    sets = write_walks(tmp_path / "sets")
    out = tmp_path / "out"
    publish_json(out / "study.json", {})
    monkeypatch.setattr(tool, "make_all_sets", lambda _, output, variants, *more: of_all(sets))
    monkeypatch.setattr(runner, "run_step", None)

    for name, loss in (("plain", 2), ("mixed", 3)):
        for seed in range(2):
            figures = {
                "steps": 1234,
                "flops": 3e7,
                "tokens": 40,
                "losses": {"masked": loss + seed},
            }

            publish_json(out / "scores" / f"{name}-{seed}.json", figures)
            publish_json(out / "scores/texts/en" / f"{name}-{seed}.json", {"bits": loss / 2})

    return [str(folder), f"output={out}", "seeds=2"]


def test_what_is_measured_is_not_done_again(measured, capsys):
    assert tool.main([*measured, "texts=en=texts.txt"]) == 0

    lines = capsys.readouterr().out.splitlines()

    assert lines[0].endswith("2 seeds; nats on held-out rows, bits per byte of en")

    rows = [
        ["mixed", "1,234", "40", "3.500", "±", "0.707", "1.500"],
        ["plain", "1,234", "40", "2.500", "±", "0.707"],
    ]

    assert (
        sorted(line.split()[: len(row)] for line, row in zip(sorted(lines[2:4]), rows, strict=True))
        == rows
    )


def test_runs_are_fine_tuned_as_the_study_says(measured, tmp_path, monkeypatch, capsys):
    study = tmp_path / "study/study.yaml"
    done = []

    def tune(_, finetune, body, *words, **__):
        given = dict(word.partition("=")[::2] for word in words)
        output = Path(given["output"])
        assert (given["seeds"], given["data.seed"]) == ("1", given["seed"])
        done.append((body.name, given["from"], given["seed"], given["tests"], "steps=5" in words))
        # the second body is right in one example less
        right = (given["from"] == "all") + (given["seed"] == "0")
        write(output, 0, [0, int(right > 1), 0, int(right > 0)])
        scored = read_json(scores_path(output, "dev", 0))
        publish_json(scores_path(output, "test_film", 0), scored)
        (output / "sets/tasks/toy").mkdir(parents=True)
        (output / "sets/tasks/toy/train").symlink_to(tmp_path / "sets/one/train")

    monkeypatch.setattr(runner, "run_step", tune)
    monkeypatch.setattr(tool.os, "sched_getaffinity", lambda _: {0})
    curves = []
    monkeypatch.setattr(tool, "label_lines", lambda points: curves.append(points) or [])
    parts = yaml.safe_load(study.read_text())
    parts["study"]["finetune"] = {
        "few": {"task": "labels", "begin": ["all", "random"], "words": ["steps=5"]}
    }
    study.write_text(yaml.safe_dump(parts))

    assert tool.main(measured) == 0
    assert "few: not fine-tuned" in capsys.readouterr().out
    assert not done

    files = ["labeled=train=t", "labeled=labels.dev=d", "labeled=pos.film=none"]

    assert tool.main([*measured, *files, f"labeled=film={tmp_path}/f"]) == 0

    tests = json.dumps({"film": f"{tmp_path}/f"})
    wanted = [
        (f"{name}-{seed}", begin, str(seed), tests, True)
        for name in ("mixed", "plain")
        for begin in ("all", "random")
        for seed in range(2)
    ]

    assert done == wanted

    rows = [
        line.split()[-2]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("few, ")
    ]

    assert rows[4:] == ["0.8750", "0.6250"] * 2
    for points in curves:
        accuracies = {
            key[1]: [run.metrics["accuracy"] for run in runs] for key, runs in points.items()
        }
        assert accuracies == {"all": [1.0, 0.75], "random": [0.75, 0.5]}
    assert len(curves) == 2


def test_a_plan_trains_nothing(measured, tmp_path, capsys):
    assert tool.main([*measured, "--dry-run"]) == 0

    lines = capsys.readouterr().out.splitlines()

    assert sorted(line.partition(" steps, ")[0].rpartition(" ")[0] for line in lines) == [
        "mixed, seed 0:",
        "mixed, seed 1:",
        "plain, seed 0:",
        "plain, seed 1:",
    ]
    assert all(re.search(r" FLOPs, \d\S* a step, \d\S* parameters$", line) for line in lines)
    assert not (tmp_path / "out/study.txt").exists()


def test_few_pairs_decide_nothing():
    scores = {
        "n": 6,
        "accuracy": 0.5,
        "correlation_with_bigram": None,
        "baselines": {"bigram": 0.5},
    }

    *_, line = pair_lines({"plain": [{"pairs": {"pll": scores}}]})

    assert "6 pairs decides nothing: its standard error is up to 0.20" in line


@pytest.mark.parametrize(
    ("plain", "mixed", "answer"),
    [
        ([2.0], [3.0], "undecided: one seed: +1.000 (one seed) (2.000 against 3.000"),
        ([2.0, 2.2], [3.0, 3.2], "holds: +1.000 ± 0.141 (2.100"),
        ([2.0, 3.0], [3.0, 3.2], "undecided: +0.600 ± 0.510 (2.500"),
        ([3.0, 3.2], [2.0, 2.2], "undecided: the better one had more tokens: -1.000"),
    ],
)
def test_a_claim_is_judged_by_its_seeds_and_at_equal_tokens(plain, mixed, answer):
    claim = SimpleNamespace(
        measure="masked", lower="plain", higher="mixed", equal="tokens", said="theirs 1.0"
    )
    study = SimpleNamespace(title="t", flops=1e9, steps=None, orderings=[claim])
    runs = {
        name: [{"steps": 1, "tokens": tokens, "losses": {"masked": loss}} for loss in losses]
        for name, tokens, losses in (("plain", 1, plain), ("mixed", 2, mixed))
    }
    *_, line = loss_lines(study, runs)

    assert line.startswith(f"masked: does plain beat mixed? {answer}")


def test_all_variants_are_checked_before_their_sets_are_made(tmp_path, monkeypatch):
    folder = write_study(tmp_path)
    parts = yaml.safe_load((folder / "study.yaml").read_text())
    parts["study"]["variants"]["mixed"]["train"] = {"optimizer": {"learning_rat": 1e-3}}
    (folder / "study.yaml").write_text(yaml.safe_dump(parts))

    def make_all_sets(*_):
        raise AssertionError("the sets were made first")

    monkeypatch.setattr(tool, "make_all_sets", make_all_sets)

    assert tool.main([str(folder), f"output={tmp_path}/out"]) == 64


def test_a_model_that_samples_its_inputs_has_no_measure(tmp_path):
    folder = write_study(tmp_path)
    _, variants = load_study(folder)
    generator = {"layers": 1, "dim": 16, "attention_heads": 2, "ffn_dim": 32}
    variants["plain"].train["model"] = {
        "family": "replaced_tokens",
        "generator": generator,
        "heads": {"masked_lm": 1.0, "token": 5.0},
    }
    check = partial(check_variants, folder, {"plain": variants["plain"]}, tmp_path)

    with refused("plain: measures"):
        check()

    variants["plain"].measures.clear()
    check()


def test_few_documents_decide_little():
    study = SimpleNamespace(title="t", flops=1e9, steps=None, orderings=[])

    for documents, error, said in (
        (1, None, "decides nothing"),
        (9, 0.125, "error of a loss is 0.125"),
        (90, None, ""),
    ):
        heldout = {"masked": {"documents": documents, "standard_error": error}}
        run = {"steps": 1, "tokens": 1, "losses": {"masked": 2.0}, "heldout": heldout}
        notes = " ".join(line for line in loss_lines(study, {"plain": [run]}) if "decide" in line)
        assert said in notes
        assert bool(said) == bool(notes)
