"""Adapters that offer a catalog's tools to other libraries, and bring tools of theirs into a catalog."""
