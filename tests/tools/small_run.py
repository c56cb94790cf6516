"""A small corpus taken through tokenizer, encode, group and corrupt: real sets for the tools to
look at."""

import json
import re

import torch
import yaml

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import validate
from clozeline.pipeline.execution.stages import stage_of
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import documents_name, write_documents
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import OBJECTIVES
from tests.pipeline.miniature import text
from tests.pipeline.unit_runs import run_pass

RECIPE = """
corpus: tools
seed: 3
heldout: {fraction: 0.1}
train_tokenizer: {name: byte_bpe, size: 600}
encode: {}
group: {block_rows: 16}
corrupt:
  - {name: masked_lm, max_length: 48, variants: 2, block_rows: 16}
  - {name: span_corruption, input_length: 48, container: tar, block_rows: 16}
  - {name: causal_lm, max_length: 48, block_rows: 16}
  - {name: document_rotation, max_length: 48, block_rows: 16, container: tar}
  - {name: text_infilling, max_length: 48, block_rows: 16}
  - {name: masked_lm, label: unilm, max_length: 48, block_rows: 16, attention: prefix}
  - name: mixture
    label: unilm_mixture
    block_rows: 16
    parts:
      - {name: masked_lm, label: plain, weight: 1, max_length: 48}
      - {name: masked_lm, label: prefix, weight: 1, max_length: 48, attention: prefix}
  - {name: whole_word_masking, max_length: 48, block_rows: 16, role_unit: word}
  - {name: span_boundary, max_length: 48, block_rows: 16, separator: sep}
  - {name: permuted_lm, max_length: 48, block_rows: 16}
  - {name: permuted_lm, label: xlnet, max_length: 48, block_rows: 16, frame: xlnet, separator: sep}
  - {name: replaced_token_detection, max_length: 48, block_rows: 16, replacement: unigram}
  - {name: corrective_lm, max_length: 48, block_rows: 16}
  - name: composition
    label: bart
    max_length: 48
    block_rows: 16
    steps: [{name: sentence_reordering}, {name: text_infilling}]
"""


def documents(count=30):
    """Some documents; one of them carries markup that a page must not take for its own."""
    found = []

    for number in range(count):
        body = text(number, 4 + number % 9)
        if number == 0:
            body = "<script>alert('x')</script> " * 12 + "& <b>bold</b> [red]text[/red]. " * 6
        uid = document_uid("tools", "crawl/page.warc.gz", "warc-gz", 1000 * number)
        found.append(
            Document(
                uid=uid,
                text=body,
                source="crawl/page.warc.gz",
                offset=1000 * number,
                length=900,
                url=f"http://site.example/{number}?a=1&b=2",
                language="en",
                n_chars=len(body),
            )
        )

    return found


def build(output, count=30, shards=2, block_rows=16, labels=()):
    """Write all sets below `output`.

    Objectives are those of the recipe that exist, or the labeled ones alone.
    """
    plan_file = output / "clean" / "plan.json"
    (output / "clean" / "documents").mkdir(parents=True)
    unit = {
        "unit": 0,
        "source": "crawl/page.warc.gz",
        "source_group": "crawl",
        "reader": "warc",
        "start": 0,
        "end": 1,
    }

    plan_file.write_text(
        json.dumps(
            add_checksum(
                {
                    "format": 1,
                    "shards": shards,
                    "inputs": [{"source": unit["source"], "bytes": 1}],
                    "units": [unit],
                }
            )
        )
    )

    plain = yaml.safe_load(RECIPE.replace("block_rows: 16", f"block_rows: {block_rows}"))
    known = set(OBJECTIVES.available())
    plain["corrupt"] = [entry for entry in plain["corrupt"] if entry["name"] in known]
    plain["corrupt"] = [
        entry
        for entry in plain["corrupt"]
        if entry.get("label", entry["name"]) in labels or not labels
    ]

    recipe = validate(Recipe, {**plain, "clean": {}, "output": str(output)}, "test")

    for name in ("train_tokenizer", "encode", "group", "corrupt"):
        stage = stage_of(recipe, name)
        (part,) = stage.plan.names
        write_documents(output / "clean" / documents_name(part), documents(count))
        for work in stage.passes():
            run_pass(stage, work)

    return output


def example_sets(output):
    """Manifest of each training example set, with that of the sample set it was made from."""
    found = {}
    for manifest in sorted((output / "corrupt").glob("*/train/manifest.json")):
        name = json.loads(manifest.read_text())["parents"][0]["name"]
        found[manifest.parent.parent.name] = (manifest, output / "group" / name / "manifest.json")
    return found


def compute_row_scores(trained, ids, head):
    """Return the scores that a head gives at each position of a row by itself, without padding."""
    row = {
        "input_ids": torch.tensor([ids]),
        "position_ids": torch.arange(len(ids))[None],
    }
    with torch.no_grad():
        return trained.model.logits(row | {"lengths": torch.tensor([len(ids)])})[head][0]


def plain_text(shown):
    return re.sub(r"\s+", " ", re.sub("\x1b\\[[0-9;]*m", "", shown))
