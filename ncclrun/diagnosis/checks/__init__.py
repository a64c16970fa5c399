"""Checks of nodes: pure functions over their facts, by area; registry.py has them all."""
