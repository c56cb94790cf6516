"""Nearest vectors by hand, and two senses of a word that fall apart in a model that has read them."""

import json

import numpy as np
import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.runs.extract_features import main as extract
from clozeline.tools.runs.inference.feature_files import Features, open_features
from clozeline.tools.runs.neighbors import NeighborOptions, find_neighbors, main
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.train.masked_set import write_config


def features():
    vectors = np.array([[1, 0], [2, 0.1], [0, 1], [3, 0], [1, 1], [0, 0], [-1, 0]], np.float32)
    words = ["play", "play", "see", "play", "see", "play", "play"]
    return Features(["a", "b", "c", "a", "d", "e", "f"], [0, 1, 2, 3, 4, 5, 6], words, vectors, {})


def test_neighbours_are_those_of_other_texts_by_cosine():
    found = find_neighbors(features(), NeighborOptions(query=0))
    assert [one["row"] for one in found] == [1, 4, 2, 5, 6]
    cosines = [2 / np.hypot(2, 0.1), 1 / np.sqrt(2), 0, 0, -1]
    assert [one["cosine"] for one in found] == pytest.approx(cosines)
    assert found[0] == {"row": 1, "uid": "b", "position": 1, "text": "play", "cosine": pytest.approx(cosines[0])}
    assert [one["row"] for one in find_neighbors(features(), NeighborOptions(query=0, same=True))] == [1, 5, 6]
    assert [one["row"] for one in find_neighbors(features(), NeighborOptions(query=0, top=2))] == [1, 4]
    with pytest.raises(ConfigurationError, match="query: expected a row index below 7, got 7"):
        find_neighbors(features(), NeighborOptions(query=7))


MUSIC = ("guitar", "piano", "violin", "flute", "drum", "harp")
SPORT = ("tennis", "football", "hockey", "chess", "rugby", "cricket")
PEOPLE = ("we", "they", "you", "i")
PLACES = {
    MUSIC: ("concert", "opera", "ball", "church", "studio", "hall"),
    SPORT: ("match", "stadium", "field", "court", "club", "park"),
}


def sentence(number, sense, place):
    """A sentence that says the sense of `play` before it, by one of six places; what is played follows."""
    return f"at the {PLACES[sense][place]} {PEOPLE[number % 4]} play {sense[number // 4 % 6]} ."


def start(world, config):
    return run(load_config(TrainConfig, config), joined=world)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """A language model of sentences with `play` in two senses, and sentences of which no two name one place."""
    folder = tmp_path_factory.mktemp("senses")
    texts = [sentence(number, sense, number % 6) for number in range(160) for sense in (MUSIC, SPORT)]
    lines = [json.dumps({"text": text}) for text in texts]
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = "corpus: senses\nseed: 1\nheldout: {fraction: 0.1}\nclean: {language: null, filters: []}\n"
    recipe += "train_tokenizer: {name: word, size: 220}\nencode: {}\ngroup: {block_rows: 16}\n"
    recipe += "corrupt:\n  - {name: causal_lm, grouping: document, max_length: 16, block_rows: 16}\n"
    (folder / "recipe.yaml").write_text(recipe, encoding="utf-8")
    words = [f"input={folder / 'texts.jsonl'}", f"output={folder / 'out'}", "executor.workers=1"]
    assert run_pipeline(["--config", str(folder / "recipe.yaml"), *words]) == 0
    manifest = folder / "out" / "corrupt" / "causal_lm" / "train" / "manifest.json"
    pool = RankPool(1)
    for steps in (1, 200):
        config = write_config(
            folder / f"{steps}.yaml", manifest, folder / f"run{steps}", model__dim=32, model__ffn_dim=64,
            model__attention_heads=2, model__position={"maximum": 32}, model__dropout={}, steps=steps,
            data__global_batch=32, data__micro_batch=32, optimizer__learning_rate=0.005,
            model__family="decoder", model__init={"std": 0.2}, model__heads={"lm": 1.0}, evaluate__max_rows=0,
            schedule={"name": "linear", "warmup": 1, "steps": 200},
        )  # fmt: skip
        assert pool.run(start, config) == [0]
    pool.close()
    shown = [sentence(place, sense, place) for sense in (MUSIC, SPORT) for place in range(6)]
    (folder / "shown.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in shown), encoding="utf-8")
    return folder, folder / "shown.jsonl"


def alike(folder, words, output):
    """The share of occurrences of `play` whose nearest neighbour has their sense."""
    assert extract([*words, f"output={output}", "pool=first_subword"]) == 0
    found = open_features(output)
    rows = [row for row, text in enumerate(found.texts) if text == "play"]
    assert len(rows) == 12
    right = 0
    for number, row in enumerate(rows):
        (best,) = find_neighbors(found, NeighborOptions(query=row, top=1, same=True))
        right += (rows.index(best["row"]) < 6) == (number < 6)
    return right / 12, found


@pytest.mark.slow
def test_two_senses_of_a_word_fall_apart(read, tmp_path, capsys):
    """In a model that has read both; not in one that has not, and in its token table all occurrences are equal."""
    folder, shown = read
    trained, found = alike(folder, [str(folder / "run200"), f"input={shown}", "layer=last"], tmp_path / "trained")
    untrained, _ = alike(folder, [str(folder / "run1"), f"input={shown}", "layer=last"], tmp_path / "untrained")
    assert trained == 1.0
    assert untrained < 0.8
    _, static = alike(folder, [str(folder / "run200"), f"input={shown}", "layer=table"], tmp_path / "table")
    row = static.texts.index("play")
    nearest = find_neighbors(static, NeighborOptions(query=row, same=True))
    assert [one["cosine"] for one in nearest] == pytest.approx([1.0] * 10)
    row = found.texts.index("play")
    capsys.readouterr()
    assert main([str(tmp_path / "trained"), f"query={row}", "same=true", "top=3", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["query"] == {"row": row, "uid": "shown.jsonl:1", "position": 4, "text": "play"}
    assert [one["uid"] in {f"shown.jsonl:{line}" for line in range(2, 7)} for one in plain["neighbours"]] == [True] * 3
    assert main([str(tmp_path / "trained"), f"query={row}", "top=2"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[0] == "query"
    assert len(printed) == 3
