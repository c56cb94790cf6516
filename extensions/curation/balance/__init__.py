"""The stage `balance`: decide how many copies of each document training reads."""
