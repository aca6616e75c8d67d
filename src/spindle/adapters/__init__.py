"""Tools of a catalog in the forms that other libraries take, and theirs in ours."""
