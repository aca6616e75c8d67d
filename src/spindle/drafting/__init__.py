"""From words to flows: a model drafts one out of the catalog's tools, and `check` looks at it first."""
