"""JSON Schemas at work: repaired, in the form that models take, and compiled to check values."""
