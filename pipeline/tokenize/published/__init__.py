"""Import tokenizers from published files, and export ours for `transformers`."""
