"""Tasks of lm-eval on a run: the scores of the harness on the exported folder.

The harness is an optional dependency; where it is not installed, tests that need it are skipped.
"""

import json
import sys

import pytest
import yaml

from clozeline.extensions.evaluation.commands.evaluate import SuiteOptions, evaluate_mode
from clozeline.extensions.evaluation.lm_eval_tasks import RunScores, task_scores
from clozeline.extensions.published.commands.export_model import main as export
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.tools.runs.inference.text_likelihoods import open_scorer
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.pipeline.miniature import text
from tests.refusals import refused
from tests.tools.small_run import compute_row_scores
from tests.train.written_runs import write_run

DECODER = {
    "label": "causal_lm",
    "model__init": {"std": 0.3},
    "model__family": "decoder",
    "model__heads": {"lm": 1.0},
    "model__activation": "gelu_tanh",
}
SPLIT = {"dataset_path": "json", "test_split": "test", "doc_to_text": "{{context}}"}
TASKS = {
    "choices": {
        "output_type": "multiple_choice",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{label}}",
    },
    "following": {
        "output_type": "loglikelihood",
        "doc_to_target": "{{choices[0]}}",
        "metric_list": [{"metric": "perplexity"}, {"metric": "acc"}],
    },
    "texts": {
        "output_type": "loglikelihood_rolling",
        "doc_to_target": "{{passage}}",
        "doc_to_text": "",
        "metric_list": [
            {"metric": name} for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")
        ],
    },
    "written": {
        "output_type": "generate_until",
        "doc_to_target": "{{choices[0]}}",
        "generation_kwargs": {"until": [" of"], "max_gen_toks": 6, "do_sample": False},
        "metric_list": [{"metric": "exact_match"}],
    },
}


def write_tasks(folder):
    """Twenty items, and a task of each kind of request that reads them."""
    folder.mkdir()
    words = [text(number, 2).split() for number in range(20)]
    items = [
        {
            "context": " ".join(line[:9]),
            "choices": [" ".join(line[at : at + 2]) for at in (9, 11, 13)],
            "label": number % 3,
            "passage": " ".join(line * 4),
        }
        for number, line in enumerate(words)
    ]

    (folder / "items.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    files = {"dataset_kwargs": {"data_files": {"test": f"{folder}/items.jsonl"}}}

    for name, task in TASKS.items():
        (folder / f"{name}.yaml").write_text(
            yaml.safe_dump({"task": name, **SPLIT, **files, **task})
        )

    return folder


@pytest.mark.filterwarnings("ignore")  # warnings of the harness are not ours
def test_scores_are_those_of_the_exported_folder(shard_sets, tmp_path, monkeypatch):
    pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install lm-eval==0.4.13")
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_DATASETS_CACHE", f"{tmp_path}/cache")
    tasks = write_tasks(tmp_path / "tasks")
    write_run(tmp_path / "run", shard_sets, [3], 1, **DECODER)
    options = SuiteOptions(run=tmp_path / "run", suite="lm_eval", tasks=(*TASKS,), input=tasks)
    found = json.loads(evaluate_mode(options)[0])["tasks"]

    assert (
        export(
            [
                f"{tmp_path}/run",
                f"{tmp_path}/hf",
                "--type",
                "gpt2",
            ]
        )
        == 0
    )

    harness = HFLM(pretrained=f"{tmp_path}/hf", device="cpu", dtype="float32", batch_size=1)
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    expected = simple_evaluate(harness, tasks=[*TASKS], task_manager=manager, bootstrap_iters=0)

    for name in TASKS:
        values = {
            key: value
            for key, value in expected["results"][name].items()
            if isinstance(value, float)
        }

        assert values
        assert {key: found[name][key] for key in values} == pytest.approx(values, rel=1e-4)

    trained = TrainedModel.open(tmp_path / "run")
    own = RunScores(trained)
    for sample in expected["samples"]["written"]:
        (context, kwargs) = sample["arguments"][0]
        assert own.continue_text(context, kwargs) == sample["resps"][0][0]


@pytest.mark.parametrize("head", ["lm", "regularized_lm"])
def test_a_decoder_scores_what_follows_a_context(shard_sets, tmp_path, head):
    write_run(tmp_path / "run", shard_sets, [3], 1, **DECODER | {"model__heads": {head: 1.0}})
    trained = TrainedModel.open(tmp_path / "run")
    scores = RunScores(trained)
    pairs = [
        scores.encode_pair("the cat sat ", "on the mat"),
        scores.encode_pair("", "the page"),
        ([5] * 90, [6, 7]),
    ]

    found = scores.score(pairs)
    (alone,) = open_scorer(trained, None)[0].score(["the page"])

    assert found[1][0] == pytest.approx(alone.total, abs=1e-4)

    for (context, continuation), (total, greedy) in zip(pairs, found, strict=True):
        row = [*context, *continuation][-(trained.max_length + 1) :]
        (logs,) = log_likelihoods(trained.model, [row])

        assert total == pytest.approx(float(logs[-len(continuation) :].sum()), abs=1e-4)

        (best,) = generate(
            trained.model, [row[: -len(continuation)]], Decoding(max_tokens=len(continuation))
        )

        assert greedy == ([*best.ids] == continuation)

    (best,) = generate(trained.model, [pairs[0][0]], Decoding(max_tokens=2))

    assert [greedy for _, greedy in scores.score([(pairs[0][0], [*best.ids])])] == [True]


def test_a_masked_lm_scores_each_token_masked_alone(shard_sets, tmp_path):
    write_run(tmp_path / "run", shard_sets, [3], 1, model__init={"std": 0.3})
    trained = TrainedModel.open(tmp_path / "run")
    scores = RunScores(trained)
    special = trained.tokenizer.vocabulary.specials
    pair = scores.encode_pair("the cat sat", " on the mat")
    ((found, greedy),) = scores.score([pair])
    row = [
        special["cls"],
        *pair[0],
        *pair[1],
        special["sep"],
    ]
    expected = 0.0

    for at in range(1 + len(pair[0]), len(row) - 1):
        masked = [*row[:at], special["mask"], *row[at + 1 :]]
        expected += float(
            compute_row_scores(trained, masked, "masked_lm")[at].log_softmax(-1)[row[at]]
        )

    assert found == pytest.approx(expected, abs=1e-4)
    assert not greedy

    with refused("which a masked LM does not"):
        scores.continue_text("the", {})


def test_the_way_out_without_the_harness(encoder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with refused(r"install clozeline\[lm-eval\]"):
        task_scores(encoder[1], ["any"], tmp_path)
