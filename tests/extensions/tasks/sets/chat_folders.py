"""Folders of chat models as others publish them: three kinds of tokenizers, and templates of many
families."""

import json
import shutil

from tokenizers import (
    AddedToken,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as Library

from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer

_SPECIALS = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|user|>"]
_TEXT = ["The small river runs. User asks 2 + 2? Assistant system user\n says four"] * 5
_TURN = "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
_ALTERNATE = (
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must "
    "alternate') }}{% endif %}"
)

PLAIN = {
    "chatml": "{% for message in messages %}" + _TURN + "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama2": "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set first = "
    "'<<SYS>>\n' + "
    "messages[0]['content'] + '\n<</SYS>>\n\n' %}{% else %}{% set rest = messages %}{% set first "
    "= '' %}{% endif %}"
    "{% for m in rest %}"
    + _ALTERNATE
    + "{% set content = first + m.content if loop.index0 == 0 else m.content %}"
    "{% if m.role == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% else %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not "
    "supported') }}{% endif %}"
    "{% for m in messages %}"
    + _ALTERNATE
    + "{% if m.role == 'assistant' %}{% set role = 'model' %}{% else %}"
    "{% set role = m.role %}{% endif %}{{ '<|im_start|>' + role + '\n' + m.content | trim + "
    "'<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}",
    "thinking": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content.split('</think>')[-1] "
    "if "
    "m.role == 'assistant' and not loop.last else m.content) + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "end at last": "{% for m in messages %}{{ m.role + m.content }}{% endfor %}{% if not add_generation_prompt "
    "%}</s>{% endif %}",
}
"""Templates without marks, from memory of their kinds."""
MARKED = {
    "end inside": "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|im_start|>assistant\n' }}{% "
    "generation %}"
    "{{ m.content + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}"
    + _TURN.replace("message", "m")
    + "{% endif %}{% endfor %}",
    "end outside": "{% for m in messages %}{% if m.role == 'assistant' %}<|im_start|>assistant\n{%- generation "
    "-%}"
    "{{ m.content }}{%- endgeneration -%}<|im_end|>\n{% else %}<|im_start|>{{ m.role }}\n{{ "
    "m.content }}<|im_end|>\n{% endif %}{% endfor %}",
}
"""Templates that mark answers."""


def _library(kind):
    if kind == "bytes":
        library = Library(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=_SPECIALS, initial_alphabet=alphabet
        )
        library.train_from_iterator(_TEXT, trainer)
        library.post_processor = processors.ByteLevel(trim_offsets=False)
    elif kind == "metaspace":
        library = Library(models.Unigram())
        library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        library.decoder = decoders.Metaspace(prepend_scheme="first")
        trained = trainers.UnigramTrainer(
            vocab_size=120, special_tokens=_SPECIALS, unk_token="<unk>"
        )
        library.train_from_iterator(_TEXT, trained)
    else:
        library = Library(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        library.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        steps = [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
        library.decoder = decoders.Sequence(steps)
        bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=[*_SPECIALS, *bytes_])
        library.train_from_iterator([text.replace(" ", "▁") for text in _TEXT], trainer)
        facts = json.loads(library.to_str())
        facts["added_tokens"] = facts["added_tokens"][: len(_SPECIALS)]
        library = Library.from_str(json.dumps(facts))

    library.add_tokens([AddedToken("<think>", normalized=False)])
    library.add_special_tokens([AddedToken("<|eot|>", rstrip=True, normalized=False)])
    return library


def write_folder(folder, kind, template, **config):
    """A folder with a tokenizer of a kind and a chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    _library(kind).save(f"{folder}/tokenizer.json")
    roles = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "chat_template": template,
    }

    facts = {"tokenizer_class": "PreTrainedTokenizerFast", **roles, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    return folder


def import_folder(source, folder):
    """The tokenizer of a folder, with the files of the folder in `source/`."""
    import_tokenizer(source, folder, pad_by_eos=True)
    shutil.copytree(source, folder / "source", dirs_exist_ok=True)
    return load_tokenizer(folder)
