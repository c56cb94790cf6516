"""What the readers of today find in golden files: digests of decoded content, losses and scores."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from clozeline.configuration.config import load_config
from clozeline.extensions.inference.feature_files import open_features
from clozeline.pipeline.ingest.documents.files import read_all_documents, read_rejects
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.train.checkpoint.stored_checkpoint import CheckpointReader, StoredCheckpoint
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.stream import Stream
from clozeline.train.logs.curves import open_run
from clozeline.train.logs.json_lines import read_lines, step_records
from clozeline.train.run import run_training
from tests.distributed import RankPool

EXPECTED = "expected.json"
TEXT = "Every shard says what it holds, and the wasp under the old tree waits."
DOCUMENT_KEYS = ("uid", "text", "source", "offset", "length", "language", "n_words", "extra")
"""Fields of a document that the readers must find; a later version may have more."""
REJECT_KEYS = ("uid", "source", "offset", "reason", "stage")
RESUMED_STEPS = 4


def digest(*parts):
    """Return 16 letters that follow from arrays, numbers and texts; the type of integers is none
    of them."""
    found = hashlib.sha256()
    for part in parts:
        array = part.detach().numpy() if isinstance(part, torch.Tensor) else part
        if isinstance(array, np.ndarray):
            if array.dtype.kind in "iu":
                array = array.astype(np.int64 if array.dtype.kind == "i" else np.uint64)
            found.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        else:
            found.update(json.dumps(part, default=str, sort_keys=True).encode())
    return found.hexdigest()[:16]


def of_fields(item, keys):
    return {
        key: value.hex() if isinstance(value := getattr(item, key), bytes) else value
        for key in keys
    }


def read_documents(folder):
    """Return the number and digest of the documents and rejects of each stage."""
    found = {}
    for stage in ("clean", "dedup", "decontaminate"):
        documents = [
            of_fields(each, DOCUMENT_KEYS)
            for each in read_all_documents(folder / "sets" / stage / "documents")
        ]
        rejects = [
            of_fields(each, REJECT_KEYS)
            for file in sorted((folder / "sets" / stage / "rejects").glob("*.arrow"))
            for each in read_rejects(file)
        ]
        found[stage] = [len(documents), digest(documents), len(rejects), digest(rejects)]
    return found


def read_sets(folder):
    """Return type, rows, digest and the values of each column of every shard set."""
    found = {}
    for path in sorted(folder.rglob("manifest.json")):
        shards = open_shards(path)
        manifest = shards.manifest
        blocks = [shards.read_block(block) for block in range(len(shards.index))]
        columns = {}
        for rows in blocks:
            for name, values in rows.fixed.items():
                columns.setdefault(name, []).append(values)
            for name, lists in rows.columns.items():
                columns.setdefault(name, []).extend([lists.values, lists.lengths])
        found[path.parent.relative_to(folder).as_posix()] = {
            "kind": manifest.kind,
            "container": manifest.container,
            "digest": shards.digest,
            "rows": len(shards),
            "roles": {name: str(role) for name, role in manifest.roles.items()},
            "columns": {name: digest(*values) for name, values in columns.items()},
        }
    return found


def read_tokenizers(folder):
    """Return the ids of a text, what they decode to, and the fingerprint of every tokenizer."""
    found = {}
    for path in sorted(folder.rglob("vocabulary.json")):
        tokenizer = load_tokenizer(path.parent)
        ids = tokenizer.encode([TEXT])[0].ids
        found[path.parent.relative_to(folder).as_posix()] = {
            "ids": ids.tolist(),
            "text": tokenizer.decode(ids),
            "fingerprint": tokenizer.vocabulary.fingerprint,
        }
    return found


def runs_of(folder):
    return sorted(path.parent for path in folder.glob("runs/*/checkpoints"))


def read_checkpoints(folder):
    """Return the position, and a digest of all weights and states, of every run."""
    found = {}
    for run in runs_of(folder):
        saved = StoredCheckpoint.find(run)
        reader = CheckpointReader(saved.folder, saved.index)
        tensors = {
            f"{key}/{name}": reader.parameter(key, name)
            for name, record in saved.index.parameters.items()
            for key in record.keys
        }
        tensors |= reader.states() | {name: reader.buffer(name) for name in saved.index.buffers}
        found[run.name] = {
            "step": saved.state.step,
            "samples": saved.state.samples,
            "parts": len(saved.index.files),
            "scalars": digest(saved.index.scalars),
            "keys": sorted({name.partition("/")[0] for name in tensors}),
            "tensors": digest(*(part for each in sorted(tensors.items()) for part in each)),
        }
    return found


def read_records(folder):
    """Return the losses of each run, as its records have them."""
    return {
        run.name: [each["loss"] for each in step_records(open_run(run).records)]
        for run in runs_of(folder)
    }


def read_positions(folder):
    """Return the ids of the next two batches after the position of a checkpoint."""
    found = {}
    for run, name in (("encoder", "masked_lm"), ("encoder_decoder", "span_corruption")):
        state = StoredCheckpoint.find(folder / "runs" / run).state.stream
        shards = open_shards(folder / "sets" / "corrupt" / name / "train")
        sizes = {"global_batch": 8, "micro_batch": 4, "lanes": 4, "seed": 0}
        with Stream(shards, rank=0, world_size=1, **sizes) as stream:
            stream.load_state_dict(state)
            batches = [batch for _ in range(2) for batch in stream.next_step()]
        found[run] = [digest(batch.tensors["input_ids"]) for batch in batches]
    return found


def scores_of(model):
    """Return some scores of each head for a row of 16 tokens."""
    row = torch.arange(20, 36)[None]
    tensors = {
        "input_ids": row,
        "position_ids": torch.arange(row.shape[1])[None],
        "lengths": torch.tensor([row.shape[1]]),
    }
    with torch.no_grad():
        scores = model.model.logits(tensors)
    return {name: values.float().flatten()[:12].tolist() for name, values in scores.items()}


def read_models(folder):
    """Return the scores of every model folder, and of runs."""
    opened = [*sorted((folder / "models").iterdir()), *(folder / "runs" / n for n in FAMILY_RUNS)]
    with contextlib.chdir(folder):  # the base of an adapter has a relative path
        return {path.name: scores_of(TrainedModel.open(path)) for path in opened}


FAMILY_RUNS = ("encoder", "decoder", "tuned", "lora", "pruned", "student")


def read_vectors(folder):
    features = open_features(folder / "features")
    return {"vectors": digest(features.vectors), "texts": features.texts, "uids": features.uids}


# What goes on
# --------------------------------------------------------------------------------------------------


def resume(world, folder, run, words):
    """Train further in a folder; return the losses of the new steps and of the evaluation."""
    with contextlib.chdir(folder):
        output = Path("runs", run)
        known = len(read_lines(output / "metrics.jsonl")) if output.exists() else 0
        source = output if output.exists() else Path("runs", words[0])
        words = (*words[1:], f"output={output}")
        config = load_config(TrainConfig, source / "config.yaml", words)
        code = run_training(config, joined=world)
        records = read_lines(output / "metrics.jsonl")[known:]
    heldout = [one for each in records for one in each.get("heldout", {}).values()]
    return {
        "code": code,
        "losses": {str(each["step"]): each["loss"] for each in step_records(records)},
        "heldout": [one["loss"] for one in heldout if "loss" in one],
    }


def resume_runs(folder):
    """Resume every run, and start others from models in other folders, from samples that are
    corrupted in the loader, and with measured importances of weights."""
    starts = {run.name: [run.name, f"steps={RESUMED_STEPS}"] for run in runs_of(folder)}
    for source in ("models/imported", "models/exported", "runs/sharded"):
        starts[f"tuned_from_{Path(source).name}"] = ["tuned", f"model.init_from={source}"]
    manifest = open_shards(folder / "sets" / "corrupt" / "masked_lm" / "train").manifest
    samples = f"data.shards=sets/group/{manifest.parents[0].name}"
    corrupted = "data.corrupt=[{name: masked_lm, max_length: 48}]"
    starts["from_samples"] = ["encoder", samples, corrupted]
    ewc = "regularizer={name: ewc, fisher: fisher.safetensors, strength: 10.0}"
    starts["from_importances"] = ["encoder", "model.init_from=runs/encoder", ewc]

    with tempfile.TemporaryDirectory() as temporary:
        copy = shutil.copytree(folder, Path(temporary, "copy"))
        pool = RankPool(1)
        try:
            found = {name: pool.run(resume, copy, name, words)[0] for name, words in starts.items()}
        finally:
            pool.close()
    return found


def run_again(folder):
    """Run the recipe again over all that it made; return the stages whose files changed."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = shutil.copytree(folder, Path(temporary, "copy"))
        files = [path for path in (copy / "sets").rglob("*.arrow") if path.is_file()]
        before = {path: path.stat().st_mtime_ns for path in files}
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, "-m", "clozeline", "pipeline", "--config", "pipeline.yaml"]
        command.append("--verify")  # a checkout gives the inputs another time
        command += ["--force", "clean"]  # all of whose units other code has made
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)

        assert done.returncode == 0, done.stderr

        changed = [
            path
            for path, written in before.items()
            if not path.exists() or path.stat().st_mtime_ns != written
        ]
        stages = {path.relative_to(copy / "sets").parts[0] for path in changed}
    return sorted(stages)


READERS = {
    "documents": read_documents,
    "sets": read_sets,
    "tokenizers": read_tokenizers,
    "checkpoints": read_checkpoints,
    "records": read_records,
    "positions": read_positions,
    "models": read_models,
    "vectors": read_vectors,
    "resumed": resume_runs,
}


def read_all(folder):
    return {name: read(folder) for name, read in READERS.items()}
