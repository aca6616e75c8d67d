"""The nodes, as thin as they can be: what they do is in `tool_calls`, which knows nothing of KNIME."""

from __future__ import annotations

import knime.extension as knext
import pyarrow as pa
import tool_calls
import tool_values

NO_CREDENTIALS = "<none>"

category = knext.category(
    path="/community",
    level_id="spindle",
    name="Spindle",
    description="Tools as data",
    icon="icons/spindle.png",
)


def columns_of(columns):
    """KNIME's columns for columns with Arrow types."""
    types = {pa.string(): knext.string(), pa.int32(): knext.int32(), pa.bool_(): knext.bool_()}
    return [knext.Column(types[kind], name) for name, kind in columns.items()]


@knext.node(
    name="MCP Tool Provider",
    node_type=knext.NodeType.SOURCE,
    icon_path="icons/spindle.png",
    category=category,
)
@knext.output_table(name="Tools", description="One row for each tool of the server.")
class McpToolProvider:
    """Reads the tools of an MCP server.

    The server is asked for its tools when the node is executed. With credentials chosen it is asked with
    them or not at all.
    """

    url = knext.StringParameter(
        "Server URL", "The address of the server, such as https://example.com/mcp.", ""
    )
    credentials = knext.StringParameter(
        "Credentials",
        "The credentials flow variable whose password is the server's token.",
        NO_CREDENTIALS,
        choices=lambda context: [NO_CREDENTIALS, *context.get_credential_names()],
    )
    prefix = knext.StringParameter(
        "Name", "Tools are called NAME.TOOL; leave it empty for their own names.", ""
    )
    strict = knext.BoolParameter(
        "Simple parameters only",
        "Leaves out parameters that are lists or objects, and tools that need them.",
        False,
    )
    as_tools = knext.BoolParameter(
        "One column of tools",
        "One column of KNIME's type of tools. Otherwise there is one column for each field.",
        False,
    )

    def configure(self, context):
        if not self.url:
            raise knext.InvalidParametersError("Say where the server is.")
        if self.as_tools:
            return knext.Schema.from_columns([knext.Column(tool_values.tool_type(), "tool")])
        return knext.Schema.from_columns(columns_of(tool_calls.COLUMNS))

    def execute(self, context):
        made = tool_calls.provide(
            self.url,
            credential_name=None if self.credentials == NO_CREDENTIALS else self.credentials,
            password_of=lambda name: context.get_credentials(name).password,
            prefix=self.prefix,
            strict=self.strict,
            is_canceled=context.is_canceled,
            note=context.set_warning,
        )
        table = (
            pa.table({"tool": tool_values.tool_column(made["tool"])})
            if self.as_tools
            else tool_calls.as_columns(made["tool"].to_pylist())
        )
        return knext.Table.from_pyarrow(table, row_ids="generate")


@knext.node(
    name="Agent Prompter",
    node_type=knext.NodeType.OTHER,
    icon_path="icons/spindle.png",
    category=category,
)
@knext.input_table(name="Tools", description="As MCP Tool Provider gives them, filtered or concatenated.")
@knext.input_table(
    name="History",
    description="Messages that came before, of an Agent Prompter of either kind.",
    optional=True,
)
@knext.input_table_group(name="Data", description="Tables that are handed to tools by their ids.")
@knext.output_table(name="Messages", description="All that was said.")
@knext.output_table_group(
    name="Made",
    description="The tables that tools made, the newest last. Ports that are left over are empty.",
)
class AgentPrompter:
    """Lets a language model work with a table of tools.

    The model calls the tools on their servers, KNIME runs the workflows, and the model is told what goes
    wrong. Of the data it sees the columns, never the rows. A row that cannot be called is left out, with a
    warning.
    """

    message = knext.MultilineStringParameter("Message", "What the model is to do.", "")
    model = knext.StringParameter("Model", "PROVIDER:NAME, such as openai:gpt-5.", "")
    key = knext.StringParameter(
        "Key",
        "The credentials flow variable whose password is the key of the model's provider.",
        "",
        choices=lambda context: list(context.get_credential_names()),
    )
    instructions = knext.MultilineStringParameter("Instructions", "What the model is told before.", "")
    ids = knext.StringParameter(
        "Ids of the data",
        "By which the model names them, with commas between; the rest are data_1, data_2, …",
        "",
    )
    workspace = knext.StringParameter("Workspace", "The folder whose flows may be run; empty: none.", "")
    steps = knext.IntParameter(
        "Iteration limit", "Answers of the model before it must come to an end.", 25, min_value=1
    )
    trusted = knext.BoolParameter(
        "Trust the tools", "Start the programs and read the files that the table names.", False
    )
    destructive = knext.BoolParameter(
        "Allow destruction", "Also tools may be called that say that they destroy.", False
    )
    knime_roles = knext.BoolParameter(
        "KNIME's names for roles", "`human` and `ai` in place of `user` and `assistant`.", False
    )
    as_values = knext.BoolParameter(
        "One column of messages",
        "One column of KNIME's type of messages, of its AI extension. Otherwise one column for each field.",
        False,
    )
    errors = knext.BoolParameter(
        "Error column", "What goes wrong is in a column of its own, and the node does not fail.", False
    )

    def configure(self, context, given, history, data):
        if not (self.message and self.model and self.key):
            raise knext.InvalidParametersError("Say what to do, and choose a model and its key.")
        said = [knext.Column(tool_values.message_type(), tool_calls.CONVERSATION)]
        said = said if self.as_values else columns_of(tool_calls.MESSAGES)
        said = [*said, *columns_of({tool_calls.ERROR: pa.string()} if self.errors else {})]
        # The columns of tables that tools make are known when the node has been executed.
        return knext.Schema.from_columns(said), [None] * context.get_connected_output_port_numbers()[1]

    def execute(self, context, given, history, data):
        def run_workflow(row, configuration, inputs):
            tables = [knext.Table.from_pyarrow(table, row_ids="generate") for table in inputs]
            message, outputs, _views = context._execute_tool(row, configuration, tables, {})
            return message, [tool_calls.without_row_ids(table.to_pyarrow()) for table in outputs]

        said, made = tool_calls.prompt(
            given.to_pyarrow(),
            self.message,
            history=None if history is None else history.to_pyarrow(),
            data=tool_calls.named([table.to_pyarrow() for table in data], self.ids),
            model=self.model,
            key_name=self.key,
            password_of=lambda name: context.get_credentials(name).password,
            instructions=self.instructions,
            workspace=self.workspace,
            trusted=self.trusted,
            destructive=self.destructive,
            steps=self.steps,
            run_workflow=run_workflow,
            is_canceled=context.is_canceled,
            progress=context.set_progress,
            knime_roles=self.knime_roles,
            as_values=self.as_values,
            errors=self.errors,
            note=context.set_warning,
        )
        if self.as_values:
            said = tool_values.message_columns(said, tool_calls.CONVERSATION)
        ports = context.get_connected_output_port_numbers()[1]
        made = tool_calls.newest(list(made.values()), ports)
        made = [knext.Table.from_pyarrow(table, row_ids="generate") for table in made]
        said = knext.Table.from_pyarrow(said, row_ids="generate")
        return (said, made) if ports else said
