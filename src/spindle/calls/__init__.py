"""How a tool is called: one guarded path, the same from every door."""
