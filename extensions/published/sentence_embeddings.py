"""Write the files that let sentence-transformers load an exported encoder as an embedding model."""

from pathlib import Path
from typing import Final

from clozeline.extensions.published.export_plan import POOLER, POOLS, SIMILARITY
from clozeline.files import publish_json
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.configuration.head import module_name
from clozeline.tools.model_folder import write_tensors

_MODES_OF_ALL_VERSIONS: Final = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
"""Pooling modes that every version of sentence-transformers reads."""


def write_modules(folder: Path, pooling: str, checkpoint: Checkpoint, length: int | None) -> None:
    """Publish `modules.json` and its modules.

    The modules are the Transformer, a pool, and the trained pooler behind the pool.

    A model with a head for similarity also gets a module that normalizes vectors to length 1, as in
    training. `length` is the number of
    tokens at which texts are cut, None without a limit.
    """
    config = checkpoint.config
    limit = {} if length is None else {"max_seq_length": length}
    publish_json(folder / "sentence_bert_config.json", {**limit, "do_lower_case": False})
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (folder / "1_Pooling").mkdir()
    chosen = "cls" if pooling == POOLER else pooling
    keys = {
        f"pooling_mode_{mode}": mode == POOLS[chosen]
        for mode in dict.fromkeys((*_MODES_OF_ALL_VERSIONS, POOLS[chosen]))
    }
    publish_json(
        folder / "1_Pooling" / "config.json", {"word_embedding_dimension": config.dim, **keys}
    )
    similarity = [name for name, target in config.targets.items() if target == SIMILARITY]
    if pooling == POOLER:
        kinds.append(("2_Dense", "Dense"))
        _write_pooler(folder / "2_Dense", checkpoint, similarity[0])

    if similarity:
        kinds.append((f"{len(kinds)}_Normalize", "Normalize"))
        (folder / kinds[-1][0]).mkdir()

    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{module_type}",
        }
        for number, (path, module_type) in enumerate(kinds)
    ]

    publish_json(folder / "modules.json", modules)


def _write_pooler(folder: Path, checkpoint: Checkpoint, head: str) -> None:
    """Write tanh(Linear(x)) of the head's pooler."""
    folder.mkdir()
    pooler = f"heads.{module_name(head)}.pooler.dense."
    tensors = {
        part: checkpoint.tensors[f"{pooler}{part}"].float().contiguous()
        for part in ("weight", "bias")
    }
    outputs, inputs = tensors["weight"].shape
    keys = {"in_features": inputs, "out_features": outputs, "bias": True}
    publish_json(
        folder / "config.json", {**keys, "activation_function": "torch.nn.modules.activation.Tanh"}
    )
    named = {f"linear.{part}": tensor for part, tensor in tensors.items()}
    write_tensors(folder / "model.safetensors", named)
