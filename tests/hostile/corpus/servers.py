"""MCP servers that attack whoever uses them: real processes, and a real HTTP server.

`SERVERS` has a `HostileServer` for each: its `name`, which is that of its source too, and `ends`:

- "refused":  its tools cannot be listed, and the error names the source;
- "left out": one of its tools is left out, and the others can be called;
- "call":     its tools are listed, and the call of `echo` fails with an error that names the source;
- "paused":   the call waits for a person;
- "fine":     whatever it does beside it, the call of `echo` is answered;
- "empty":    it has no tools.

Where it only ever ends by a timeout, it `waits`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from corpus import http_server, stdio_server

STDIO_SERVER = Path(stdio_server.__file__)
HEALTHY = {"command": [sys.executable, "-I", "-S", str(STDIO_SERVER), "healthy"], "protocol": "handshake"}

Ends = Literal["refused", "left out", "call", "paused", "fine", "empty"]
TIMEOUT = 1.0
"""Seconds until what never comes is given up."""
_OURS = ("healthy", "tools_of_a_file")


@dataclass(frozen=True)
class HostileServer:
    name: str
    transport: Literal["stdio", "http"]
    ends: Ends
    says: str
    """A regular expression for the error, or for the reason why a tool was left out."""
    waits: bool = False

    def settings(self, http_address: str, patience: float = 60) -> dict[str, Any]:
        """The settings of its source, which have it wait for nothing that never comes."""
        never_ready = self.waits and re.search("was not ready|only said", self.says)
        never_listed = self.waits and "list its tools" in self.says
        limits = {
            "timeout": TIMEOUT if never_listed else patience,
            "connect_timeout": TIMEOUT if never_ready else patience,
            "retry": {"attempts": 1},
            "screen": "note",  # what holds their tools back is tested elsewhere; here they are called
        }
        if self.transport == "http":
            return {"url": f"{http_address}/{self.name}", "protocol": "handshake", **limits}
        command = [sys.executable, "-I", "-S", str(STDIO_SERVER), self.name]
        return {"command": command, "protocol": "handshake", **limits}

    def as_it_should(self, said: str) -> bool:
        """True if this is a clear error for it, which names the source, or a clear reason."""
        names_it = self.name in said or self.ends in ("left out", "paused")
        return names_it and re.search(self.says, said, re.DOTALL) is not None and len(said) < 6000


def _read(table: str, transport: Literal["stdio", "http"]) -> list[HostileServer]:
    """Lines of `name | ends | says`, with `waits` at the end where it does."""
    found: list[HostileServer] = []
    for line in table.strip().splitlines():
        name, ends, says, *more = (part.strip() for part in line.split(" | "))
        found.append(HostileServer(name, transport, ends, says, bool(more)))  # type: ignore[arg-type]
    return found


STDIO = _read(
    r"""
a_tool_without_a_name | left out | ^name:
a_tool_named_by_a_number | left out | ^name:
a_tool_with_an_empty_name | left out | no name
a_tool_with_an_endless_name | left out | 100,000 characters
a_tool_name_that_turns_words_around | left out | not seen
a_tool_name_of_hidden_letters | left out | not seen
a_tool_name_with_line_breaks | left out | not seen
a_tool_name_that_clears_the_screen | left out | not seen
two_tools_of_one_name | left out | came before it
a_description_of_megabytes | left out | max_tool_size
a_description_that_is_a_number | left out | ^description:
a_schema_that_is_a_list | fine | .
a_schema_that_is_a_text | fine | .
a_schema_that_is_missing | fine | .
a_schema_nested_four_hundred_deep | left out | levels deep
a_schema_that_doubles_forty_times | left out | cannot be used
a_schema_of_megabytes | left out | max_tool_size
an_output_schema_that_is_a_list | fine | .
annotations_that_are_a_text | left out | ^annotations:
metadata_of_megabytes | left out | max_tool_size
a_tool_that_is_nothing | left out | valid dictionary
a_tool_that_is_a_list_of_lists | left out | valid dictionary
texts_that_turn_words_around | fine | .
texts_with_hidden_orders | fine | .
texts_that_clear_the_screen | fine | .
more_tools_than_allowed | refused | more than 10,000 tools
pages_of_tools_without_end | refused | more than 10,000 tools
pages_of_megabytes_without_end | refused | of more than 33,554,432 bytes
cursors_of_megabytes | refused | a cursor of 1,500,000 characters
pages_in_a_circle | refused | in a circle
a_cursor_that_is_a_number | refused | against the protocol: nextCursor
tools_that_are_a_text | refused | no list of tools
no_tools_at_all_in_the_answer | refused | no list of tools
a_list_that_is_a_text | refused | neither a result nor an error
a_list_that_is_an_error_with_escapes | refused | no
an_error_of_megabytes | refused | e{100} … \(2,000,000 characters\)
an_error_that_says_nothing | refused | gave no reason
an_error_with_a_code_of_text | refused | gave no reason
a_list_nested_beyond_reading | refused | cannot be read
a_list_of_millions_of_lists | refused | cannot be read
a_list_that_never_comes | refused | did not list its tools | waits
a_list_that_drips | refused | did not list its tools | waits
half_a_line_and_the_end | refused | exited with status 0
the_end_instead_of_a_list | refused | exited with status 3
output_closed_instead_of_a_list | refused | closed its output|did not list
a_list_that_is_another_each_time | fine | .
a_line_without_end | refused | did not list its tools | waits
an_answer_over_the_limit | refused | larger than 16777216 bytes
nothing_but_silence | refused | was not ready | waits
a_program_that_is_no_server | refused | only said:.*Welcome | waits
the_end_at_once | refused | exited with status 0 before it was ready
the_end_with_words_that_clear_the_screen | refused | status 4 before it was ready.*fatal
the_end_by_a_signal | refused | ended by SIGSEGV
an_empty_handshake | refused | known version of MCP
a_version_from_the_future | refused | 2999-01-01
a_handshake_of_wrong_types | refused | known version of MCP
a_handshake_refused | refused | no
tools_without_the_capability | empty | .
capabilities_that_lie | fine | .
notices_before_the_handshake | fine | .
requests_before_the_handshake | fine | .
answers_to_what_nobody_asked | fine | .
text_among_the_messages | fine | .
a_flood_of_text | fine | .
a_flood_on_stderr | fine | .
one_line_on_stderr_without_end | fine | .
every_answer_twice | fine | .
answers_with_other_ids | refused | was not ready | waits
answers_with_ids_as_text | fine | .
answers_without_ids | refused | was not ready | waits
answers_that_are_result_and_error | refused | both
answers_in_a_batch | refused | was not ready | waits
answers_that_are_not_utf8 | refused | cannot be read
lines_that_end_as_on_windows | fine | .
a_result_of_wrong_types | call | against the protocol: content
a_result_that_is_empty | call | against the protocol: content
a_result_of_an_unknown_kind | call | against the protocol: content
a_result_that_is_a_number | call | neither a result nor an error
a_result_that_clears_the_screen | fine | .
a_picture_that_is_none | fine | .
a_link_that_runs | fine | .
a_number_beyond_all | call | cannot be read
a_result_nested_deeply | call | cannot be read
a_result_that_breaks_its_promise | call | does not fit its output schema
a_call_that_is_never_answered | call | did not answer within | waits
a_call_that_ends_the_server | call | exited with status 9
a_call_that_closes_the_output | call | closed its output|did not answer
a_result_over_the_limit | call | larger than 16777216 bytes
a_result_of_not_a_number | call | cannot be read
a_flood_of_progress | fine | .
a_flood_of_messages | fine | .
a_flood_of_unknown_notices | fine | .
a_flood_of_changed_resources | fine | .
a_flood_of_pings | fine | .
a_flood_of_questions_to_a_model | fine | .
a_flood_of_questions_to_the_user | paused | .
a_storm_of_changed_lists | fine | .
an_answer_after_the_caller_left | call | did not answer within | waits
a_server_that_stops_reading | call | did not answer within | waits
a_server_that_does_not_end | fine | .
a_server_that_leaves_children | fine | .
""",
    "stdio",
)

HTTP = _read(
    r"""
a_page_of_an_error | refused | HTTP status 500
nothing_here | refused | HTTP status 404
nobody_may_come_in | refused | HTTP status 401
come_back_in_a_thousand_years | refused | HTTP status 429
come_back_at_no_time | refused | HTTP status 503
a_redirect_to_itself | refused | redirected more than 5 times
a_redirect_to_a_file | refused | redirects to file:
a_redirect_to_the_metadata_of_a_cloud | refused | redirects to another origin
a_redirect_to_nowhere | refused | redirects to what is not a URL
no_answer_at_all | refused | was not ready | waits
a_closed_connection | refused | closed the connection
a_status_line_of_garbage | refused | does not answer in HTTP
headers_without_end | refused | head of its answer is larger
a_head_that_drips | refused | was not ready | waits
a_flood_of_cookies | fine | .
a_session_id_of_escapes | fine | .
a_session_that_is_forgotten_at_once | refused | no longer knows the session
a_page_instead_of_an_answer | refused | text/html
an_answer_of_no_kind | refused | not JSON, but \\x00$
an_empty_answer | refused | cannot be read
accepted_and_never_answered | refused | 202 Accepted
an_answer_that_is_not_json | refused | cannot be read
an_answer_that_is_a_list | refused | cannot be read
an_answer_nested_beyond_reading | refused | cannot be read
an_answer_of_millions_of_lists | refused | larger than 1000000 lists and objects
an_answer_that_is_not_utf8 | refused | cannot be read
an_answer_to_another_request | refused | to another request
a_bomb_in_gzip | refused | compressed
a_bomb_in_an_unknown_encoding | refused | compressed
an_answer_that_breaks_off | refused | broke off
an_answer_longer_than_it_says | refused | cannot be read|Bad status line
a_length_that_is_no_number | refused | Content-Length
pieces_of_impossible_size | refused | Chunk size overflow
an_answer_without_end | refused | larger than 16777216 bytes
an_answer_that_drips | refused | did not list its tools | waits
events_without_end | refused | did not list its tools | waits
an_event_without_end | refused | larger than 16777216 bytes
a_stream_that_says_nothing | refused | did not list its tools | waits
a_stream_that_ends_without_an_answer | refused | cannot be read
events_of_garbage | refused | cannot be read
a_stream_of_pings | fine | .
a_stream_of_notices | fine | .
an_answer_twice | fine | .
an_answer_and_then_noise_without_end | fine | .
a_call_that_breaks_off | call | ended without an answer
posts_to_another_host | refused | 405
posts_to_no_address | refused | 405
an_endpoint_that_never_comes | refused | was not ready | waits
an_endpoint_without_end | refused | was not ready | waits
""",
    "http",
)

SERVERS = [*STDIO, *HTTP]


def uncovered() -> set[str]:
    """Behaviours of the two servers that no case is about, and the other way round."""
    behaviours = ({*stdio_server.BEHAVIOURS}.difference(_OURS), {*http_server.BEHAVIOURS})
    cases = ({case.name for case in STDIO}, {case.name for case in HTTP})
    return {name for there, told in zip(behaviours, cases, strict=True) for name in there ^ told}
