"""Three sources with texts of very different lengths: shares asked, and shares of the rows."""

import json
from collections import Counter

import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.seeding import hash64
from tests.pages import checked
from tests.pipeline.miniature import text, write_recipe
from tests.pipeline.token_sets import all_rows

RECIPE = """
corpus: mix
heldout: {fraction: 0.02}
clean: {language: null, filters: []}
dedup: {exact: {}, near: null}
train_tokenizer: {name: byte_bpe, size: 420}
encode: {}
group: {}
corrupt: [{name: masked_lm, max_length: 64, grouping: document}]
"""
SOURCES = {"forum": (300, 2), "news": (160, 9), "books": (60, 30)}
"""Documents of a source, and sentences of the median one."""


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mix")
    inputs = []
    for source, (documents, sentences) in SOURCES.items():
        path = folder / f"{source}.jsonl"
        sizes = [1 + sentences * 4 ** (hash64(source, n) % 100 / 50 - 1) for n in range(documents)]
        lines = [
            json.dumps({"text": f"{source} {n} " + text(n, int(size))})
            for n, size in enumerate(sizes)
        ]
        path.write_text("\n".join(lines))
        inputs.append({"path": str(path), "source": source})
    words = [f"input={json.dumps(inputs)}", f"output={folder / 'out'}"]
    return ["--config", str(write_recipe(folder, RECIPE)), *words], folder / "out"


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"forum": 0.2, "news": 0.3, "books": 0.5},
        {"forum": 0.15},
        {"news": 0.6, "books": 0.1},
        {"books": 0.34, "forum": 0.06, "news": 0.6},
    ],
)
def test_sources_have_the_shares_that_were_asked(arguments, asked, capsys):
    words, out = arguments
    assert main([*words, f"balance.sources={json.dumps(asked)}"] if asked else words) == 0
    printed = capsys.readouterr().out.splitlines()
    page = checked((out / "report.html").read_text())

    # the shares of the rows that training reads
    encoded = all_rows(out / "encode")
    codes = encoded.fixed["source_group"].tolist()
    uids = map(bytes, encoded.fixed["document_uid"])
    source_of = {uid: sorted(SOURCES)[code] for uid, code in zip(uids, codes, strict=True)}
    (train,) = out.glob("group/*/train")
    rows = all_rows(train)
    tokens = Counter()
    for uid, length in zip(rows.fixed["document_uid"], rows.columns["ids"].lengths, strict=True):
        tokens[source_of[bytes(uid)]] += int(length)
    got = {source: tokens[source] / tokens.total() for source in SOURCES}

    for source in SOURCES:
        expected = asked.get(source)
        assert expected is None or abs(got[source] - expected) < 0.01

        # the table on the terminal, and the first one of the page
        line = next(line for line in printed if line.startswith(f"{source} ")).split()
        assert line[1:3] == [str(SOURCES[source][0])] * 2
        assert float(line[-1]) == pytest.approx(100 * got[source], abs=0.1)
        assert line == page.cells[page.cells.index(source) :][: len(line)]
        assert (expected is None) or float(line[-3]) == 100 * expected
