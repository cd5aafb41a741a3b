"""Compiling in processes of their own, which can crash without taking anything else along."""
