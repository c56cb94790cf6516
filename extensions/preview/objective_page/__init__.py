"""A page on which words are clicked, and an objective shows what it makes of them."""
