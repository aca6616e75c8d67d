"""Finding what is wrong with a flow before it runs."""
