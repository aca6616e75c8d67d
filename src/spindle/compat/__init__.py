"""Other systems' names for what Spindle does, so that programs written for them run with a changed import.

Each package translates the configuration of one system into Spindle's settings and calls Spindle's own API.
An option that could not be honoured is an error that names the way to do it here.
"""
