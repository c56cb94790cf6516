"""Tokenizers of other projects: published files become our tokenizer folder, and our folder a published directory."""
