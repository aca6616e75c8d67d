"""A stand-in for KNIME's Python library: see the README beside it."""
