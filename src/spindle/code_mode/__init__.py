"""Programs that call tools: written by a model, executed in a sandbox."""
