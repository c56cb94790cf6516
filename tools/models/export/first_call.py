"""Load an exported folder by its class of transformers, and call the model once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from clozeline.errors import ConfigurationError
from clozeline.tools.models.export.quiet_transformers import import_transformers


def load_and_call(folder: Path, loader: str, options: Mapping[str, Any]) -> str:
    """Return how the folder loads, for people; without transformers it is not tried.

    Args:
        folder: a complete export.
        loader: class of transformers that loads it.
        options: arguments of `from_pretrained`.

    Raises:
        ConfigurationError: the class refuses the folder, lacks tensors of it, or fails at its first call.
    """
    try:
        transformers = import_transformers("export-model")
    except ConfigurationError:
        return f"for {loader}, not tried: transformers is not installed"
    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    try:
        model, report = getattr(transformers, loader).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, output_loading_info=True, **options
        )
        if differing := {key: sorted(map(str, names)) for key, names in report.items() if names}:
            raise ValueError(f"tensors differ: {differing}")
        # a row ends with the end token, whose state the classifiers of encoder-decoders read
        end = getattr(model.config, "eos_token_id", None) or 1
        ids = torch.tensor([[1, end[0] if isinstance(end, list) else end]])
        rows = {"input_ids": ids[None] if loader.endswith("ForMultipleChoice") else ids}
        reads_two = model.config.is_encoder_decoder and "Encoder" not in loader
        with torch.no_grad():
            model.eval()(**rows, **({"decoder_input_ids": ids} if reads_two else {}))
    except Exception as error:  # whatever the class raises, the export is none
        why = " ".join(str(error).split()) or type(error).__name__
        raise ConfigurationError(
            f"{folder}: {loader} of transformers cannot run this model: {why}; nothing was written: choose another "
            "--type, or keep the model in our format"
        ) from error
    finally:
        transformers.utils.logging.set_verbosity(level)
    return f"loaded by {loader}"
