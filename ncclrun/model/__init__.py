"""Frozen data that every floor above speaks in."""
