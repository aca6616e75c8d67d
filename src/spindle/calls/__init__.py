"""The path of a tool call: the same guards for every caller."""
