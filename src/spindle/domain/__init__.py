"""The nouns of Spindle: pure data, no input or output."""
