"""Documents from outside: text read within bounds, references followed, files and URLs fetched."""
