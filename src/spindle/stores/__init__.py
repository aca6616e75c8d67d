"""Implementations of the store port."""
