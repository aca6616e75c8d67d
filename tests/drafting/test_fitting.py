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


def verdict(words: str, name: str) -> str:
    found = FLOWS[name]
    spec = ToolSpec(found.name, found.description, input_schema(dict(found.inputs)))
    fit = fit_of(words, found, Tool(found.name, "flows", "flows", spec, spec.fingerprint))
    return REFUSE if not fit.is_candidate else ASK if fit.doubts else USE


@pytest.mark.parametrize(("words", "name", "expected"), PAIRS)
def test_a_saved_flow_is_used_only_where_it_does_what_was_said(words: str, name: str, expected: str) -> None:
    assert verdict(words, name) == expected


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
