"""Words become flows: a model drafts one from the catalog's tools, and `flows/check` checks it."""
