"""`spindle token`, `spindle group` and `spindle quota`: what administrators change while servers run."""
