"""The language of `${…}`, `when` and `fail_when`: JSON values, operators and functions, and nothing else.

    search.total > 10 and not search.failed         names are those of the shared store
    items[0].name, prices[item.sku], `odd-name`.x   keys, items; a name with odd characters in backticks
    lang ?? "en"                                    a default for what is not there, or null
    (price + 2) * count, first + " " + last         numbers; text and lists are joined
    filter(items, item.open)                        each is `item`, or named: filter(rows, r => r.open)
    {"sum": sum(map(rows, item.price)), "all": []}  objects and lists

It is total: every expression ends, within bounds of work and size, with a value or an ExpressionError. It
sees JSON values alone, no attributes, and does nothing: `now()` is the time at which the run began.

    parsing.py     text → Expression
    terms.py       the parts of an expression, and how they are evaluated
    tokens.py      text → words
    functions.py   the functions, with all that the check and the reference say of them
    scope.py       the values that an expression sees
    paths.py       places in values
    dates.py       times as seconds, and their texts
    values.py      kinds, equality, order and size of JSON values; the bounds
"""
