from pathlib import Path

from pyarrow import Table

def read_table(source: Path | str, *, memory_map: bool = False, use_threads: bool = True) -> Table: ...
