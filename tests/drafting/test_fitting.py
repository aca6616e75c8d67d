"""Which saved flow does what words say: pairs of words and flows that must and must not match."""

from __future__ import annotations

import pytest

from spindle.domain.tool import Tool, ToolSpec
from spindle.drafting.fitting import fit_of
from spindle.flows.definition import FlowDefinition, NodeDefinition
from spindle.flows.signature import input_schema

TEXT = {"type": "string"}


def flow(name: str, description: str, *tools: str, **inputs: str) -> FlowDefinition:
    nodes = tuple(NodeDefinition(tool.rpartition(".")[2], tool) for tool in tools)
    schemas = {key: {**TEXT, "default": value} if value else TEXT for key, value in inputs.items()}
    return FlowDefinition(nodes, name=name, description=description, inputs=schemas)


FLOWS = {
    item.name: item
    for item in [
        flow("shout_file", "Read a file and shout it.", "fs.read", "text.shout", file="plan.txt"),
        flow(
            "send_note",
            "Read a note and send it to a channel.",
            "fs.read",
            "chat.send",
            file="",
            channel="dev",
        ),
        flow("backup", "Copy the database to the archive every night.", "db.dump", "archive.store"),
        flow(
            "invoice_mail",
            "Create an invoice for a customer and mail it.",
            "books.create_invoice",
            "mail.send",
            customer="",
        ),
        flow("open_issues", "List open issues of a repository.", "github.list_issues", repository=""),
        flow("no_spam", "Remove messages that are not wanted, without asking.", "mail.list", "mail.delete"),
        flow("tell_builds", "Send a message when a build ends.", "ci.watch", "chat.send"),
        flow("stop_server", "Stop the web server and skip its backup.", "ops.stop"),
    ]
}

USE = "use"
ASK = "ask"
REFUSE = "refuse"

PAIRS = [
    # the same words, or others for the same
    ("read a file and shout it", "shout_file", USE),
    ("shout the file", "shout_file", USE),
    ("shout a file please", "shout_file", USE),
    ("shout file", "shout_file", USE),
    ("read the file and shout", "shout_file", USE),
    ("shout the file plan.txt", "shout_file", USE),
    ("shout the file other.txt", "shout_file", USE),
    ("read the file 'my notes.txt' and shout it", "shout_file", USE),
    ("shout_file", "shout_file", USE),
    ("send a note to a channel", "send_note", USE),
    ("read a note and send it to the channel", "send_note", USE),
    ("send the note to the channel", "send_note", USE),
    ("send note", "send_note", USE),
    ("copy the database to the archive", "backup", USE),
    ("copy the database", "backup", USE),
    ("copy the database to the archive every night", "backup", USE),
    ("create an invoice for a customer and mail it", "invoice_mail", USE),
    ("mail an invoice to the customer", "invoice_mail", USE),
    ("create an invoice for the customer 'Ada Ltd' and mail it", "invoice_mail", USE),
    ("list the open issues of a repository", "open_issues", USE),
    ("list open issues of the repository ada/engine", "open_issues", USE),
    ("show the open issues of a repository", "open_issues", ASK),
    ("remove messages that are not wanted", "no_spam", USE),
    ("remove messages without asking", "no_spam", USE),
    # values that no input takes beyond doubt, and words that the flow does not know
    ("read other.txt and shout the file to ops", "shout_file", ASK),
    ("shout the files a.txt and b.txt", "shout_file", ASK),
    ("shout the german file", "shout_file", ASK),
    ("shout the file twice", "shout_file", ASK),
    ("send the note shop.txt to a channel", "send_note", ASK),
    ("send the note shop.txt to the channel 'ops'", "send_note", ASK),
    ("send the note to the channel ops", "send_note", ASK),
    ("read a note and send it to the channel tomorrow", "send_note", ASK),
    ("copy the database to the archive in Paris", "backup", ASK),
    ("copy the database users.db to the archive", "backup", ASK),
    ("copy the database every hour", "backup", ASK),
    ("create an invoice for customer 12 and 13 and mail it", "invoice_mail", ASK),
    ("create an invoice for the customer in dollars and mail it", "invoice_mail", ASK),
    ("list the open issues of the repositories a/b and c/d", "open_issues", ASK),
    ("list open issues of a repository by age", "open_issues", ASK),
    # what is forbidden
    ("never shout a file", "shout_file", REFUSE),
    ("do not shout the file", "shout_file", REFUSE),
    ("don't shout the file", "shout_file", REFUSE),
    ("don\N{RIGHT SINGLE QUOTATION MARK}t read a file and shout it", "shout_file", REFUSE),
    ("read a file without shouting it", "shout_file", REFUSE),
    ("read a note but do not send it to the channel", "send_note", REFUSE),
    ("send a note to no channel", "send_note", REFUSE),
    ("stop copying the database to the archive", "backup", REFUSE),
    ("create an invoice for a customer instead of mailing it", "invoice_mail", REFUSE),
    ("list open issues of every repository except one", "open_issues", REFUSE),
    ("avoid shouting a file", "shout_file", REFUSE),
    # other deeds
    ("delete the file and shout it", "shout_file", REFUSE),
    ("delete the file plan.txt and shout it", "shout_file", REFUSE),
    ("read a file, shout it and upload it", "shout_file", REFUSE),
    ("translate a file and shout it", "shout_file", REFUSE),
    ("delete a note and send it to a channel", "send_note", REFUSE),
    ("archive the note and send it to a channel", "send_note", REFUSE),
    ("restore the database from the archive", "backup", REFUSE),
    ("drop the database and copy it to the archive", "backup", REFUSE),
    ("wipe the archive and copy the database", "backup", REFUSE),
    ("cancel the invoice for a customer and mail it", "invoice_mail", REFUSE),
    ("refund the invoice of a customer by mail", "invoice_mail", REFUSE),
    ("close the open issues of a repository", "open_issues", REFUSE),
    ("assign open issues of a repository", "open_issues", REFUSE),
    # something else altogether
    ("what is the weather", "shout_file", REFUSE),
    ("buy milk", "send_note", REFUSE),
    ("send the invoices of last month by mail", "send_note", REFUSE),
    ("read mail", "backup", REFUSE),
    ("", "shout_file", REFUSE),
]

# Written without a look at the rule: what a person would say, and whether the flow does it.
FURTHER_PAIRS = [
    ("please read the file report.md and shout it", "shout_file", True),
    ("could you shout the file for me?", "shout_file", True),
    ("Shout the file ./notes/today.txt.", "shout_file", True),
    ("read a note from the file shop.txt and send it to a channel", "send_note", True),
    ("send the note in the file 'shop list.txt' to the channel 'ops'", "send_note", True),
    ("back up the database", "backup", True),
    ("run the backup", "backup", True),
    ("store a copy of the database in the archive", "backup", True),
    ("create an invoice for the customer 'Ada Ltd' and send it by mail", "invoice_mail", True),
    ("make an invoice for a customer and mail it", "invoice_mail", True),
    ("which issues are open in the repository ada/engine?", "open_issues", True),
    ("list all the open issues of the repository ada/engine", "open_issues", True),
    ("shout the file only if it is not empty", "shout_file", False),
    ("I no longer want to shout the file", "shout_file", False),
    ("what does shout_file do?", "shout_file", False),
    ("read all files and shout them", "shout_file", False),
    ("read a note, summarize it and send it to the channel", "send_note", False),
    ("send the note to the channel 'dev' and then delete it", "send_note", False),
    ("copy the archive to the database", "backup", False),
    ("did you copy the database to the archive?", "backup", False),
    ("create an invoice for every customer and mail it", "invoice_mail", False),
    ("list closed issues of a repository", "open_issues", False),
    ("list open issues of the repository ada/engine and mail them", "open_issues", False),
    ("remove messages that are wanted", "no_spam", False),
]
SAFE_MISSES = {
    "read a note from the file shop.txt and send it to a channel": "two inputs: either could take the value",
    "send the note in the file 'shop list.txt' to the channel 'ops'": "two values for two inputs",
    "back up the database": "`back up` is not known as `backup`",
    "run the backup": "`run` is a deed of its own, such as to run a program",
    "which issues are open in the repository ada/engine?": "it could be a question about the flow",
    "list all the open issues of the repository ada/engine": "`all` may be more than the flow gives",
}
"""Those of the further pairs that match, but are asked about or passed over, which does no harm."""

# The words of a flow, put so that they say something else.
PUT_OTHERWISE = [
    ("do not remove messages", "no_spam", REFUSE),
    ("do not remove messages that are wanted", "no_spam", REFUSE),
    ("remove messages, not", "no_spam", REFUSE),
    ("copy the archive", "backup", ASK),
    ("copy the database from the archive", "backup", ASK),
    ("read a note and send the channel to it", "send_note", ASK),
    ("is the database copied to the archive every night", "backup", ASK),
    ("how to copy the database to the archive", "backup", ASK),
    ("which file does shout_file shout?", "shout_file", ASK),
    ("shout the file if plan.txt", "shout_file", ASK),
    ("copy database to archive", "backup", USE),
    ("every night copy the database to the archive", "backup", USE),
    ("I want to copy the database", "backup", USE),
    ("could you please copy the database?", "backup", USE),
    ("send a message when a build ends", "tell_builds", USE),
    ("send a message if a build ends", "tell_builds", ASK),
    ("stop the server", "stop_server", USE),
    ("do not stop the web server", "stop_server", REFUSE),
    ("backup the web server", "stop_server", ASK),
]


def verdict(words: str, name: str) -> str:
    found = FLOWS[name]
    spec = ToolSpec(found.name, found.description, input_schema(dict(found.inputs)))
    fit = fit_of(words, found, Tool(found.name, "flows", "flows", spec, spec.fingerprint))
    return REFUSE if not fit.is_candidate else ASK if fit.doubts else USE


@pytest.mark.parametrize(("words", "name", "expected"), PAIRS + PUT_OTHERWISE)
def test_a_saved_flow_is_used_only_where_it_does_what_was_said(words: str, name: str, expected: str) -> None:
    assert verdict(words, name) == expected


@pytest.mark.parametrize(("words", "name", "matches"), FURTHER_PAIRS)
def test_what_a_flow_does_not_do_is_never_run_for_it(words: str, name: str, matches: bool) -> None:
    assert (verdict(words, name) == USE) == (matches and words not in SAFE_MISSES)


def test_there_are_enough_pairs_of_each_kind() -> None:
    counts = [sum(expected == kind for _, _, expected in PAIRS) for kind in (USE, ASK, REFUSE)]
    assert sum(counts) >= 60
    assert min(counts) >= 15


def test_values_are_bound_where_there_is_one_way_to_read_them() -> None:
    found = FLOWS["shout_file"]
    spec = ToolSpec(found.name, found.description, input_schema(dict(found.inputs)))
    tool = Tool(found.name, "flows", "flows", spec, spec.fingerprint)
    assert fit_of("shout the file other.txt", found, tool).inputs == {"file": "other.txt"}
    assert fit_of("shout the file plan.txt", found, tool).inputs == {"file": "plan.txt"}
    assert fit_of("shout the files a.txt and b.txt", found, tool).doubts == ("a.txt", "b.txt")


def test_a_doubt_is_the_word_as_it_was_said() -> None:
    found = FLOWS["backup"]
    spec = ToolSpec(found.name, found.description, input_schema(dict(found.inputs)))
    tool = Tool(found.name, "flows", "flows", spec, spec.fingerprint)
    assert fit_of("copy the archive to the database", found, tool).doubts == ("archive", "database")
