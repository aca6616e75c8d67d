"""Warm shell commands: a process in the background keeps a workspace open, and does the commands that the
thin client of the command line sends it.

The client's side (`client`, `places`, `messages`) imports next to nothing, because that is its point.
"""
