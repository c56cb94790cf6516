"""Extensions: a folder for each capability, with algorithms, stages, keys, commands and a page."""
