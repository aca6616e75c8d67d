"""Python code of a workspace: modules of a folder, functions as tools, and calling them."""
