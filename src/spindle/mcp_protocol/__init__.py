"""MCP itself, for both sides of Spindle: its names and numbers, its error, and rules that clients and servers
share. The SDK's models take half a second and many megabytes to load, so they are only asked about what is
not plainly right (`models`)."""
