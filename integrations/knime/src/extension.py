"""The nodes, as thin as they can be: what they do is in `tools`, which knows nothing of KNIME."""

from __future__ import annotations

import knime.extension as knext
import tools

NO_CREDENTIALS = "<none>"

category = knext.category(
    path="/community",
    level_id="spindle",
    name="Spindle",
    description="Tools as data",
    icon="icons/spindle.png",
)


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
        "Needs a KNIME that knows the type of tools. Otherwise there is one column for each field.",
        False,
    )

    def configure(self, context):
        if not self.url:
            raise knext.InvalidParametersError("Say where the server is.")
        # The columns are known when the node has been executed: the type is KNIME's to choose.

    def execute(self, context):
        chosen = None if self.credentials == NO_CREDENTIALS else self.credentials
        made = tools.provide(
            self.url,
            credential_name=chosen,
            password_of=lambda name: context.get_credentials(name).password,
            prefix=self.prefix,
            strict=self.strict,
            as_tools=self.as_tools,
            note=context.set_warning,
        )
        return knext.Table.from_pyarrow(made, row_ids="generate")


@knext.node(
    name="Agent Prompter",
    node_type=knext.NodeType.OTHER,
    icon_path="icons/spindle.png",
    category=category,
)
@knext.input_table(name="Tools", description="As MCP Tool Provider gives them, filtered or concatenated.")
@knext.input_table(name="Data", description="A table that is handed to tools by its id.", optional=True)
@knext.input_table(name="History", description="Messages that came before.", optional=True)
@knext.output_table(name="Messages", description="All that was said, one row for each message.")
class AgentPrompter:
    """Lets a language model work with a table of tools.

    The model calls the tools on their servers, and is told what goes wrong. Of the data it sees the columns,
    never the rows.
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
    data_id = knext.StringParameter("Id of the data", "By which the model names the table of data.", "data")
    workspace = knext.StringParameter("Workspace", "The folder whose flows may be run; empty: none.", "")
    trusted = knext.BoolParameter(
        "Trust the tools", "Start the programs and read the files that the table names.", False
    )
    destructive = knext.BoolParameter(
        "Allow destruction", "Also tools may be called that say that they destroy.", False
    )

    def configure(self, context, *inputs):
        if not (self.message and self.model and self.key):
            raise knext.InvalidParametersError("Say what to do, and choose a model and its key.")
        # The columns are known when the node has been executed.

    def execute(self, context, given, data, history):
        said = tools.prompt(
            given.to_pyarrow(),
            self.message,
            history=None if history is None else history.to_pyarrow(),
            data=None if data is None else data.to_pyarrow(),
            data_id=self.data_id,
            model=self.model,
            key_name=self.key,
            password_of=lambda name: context.get_credentials(name).password,
            instructions=self.instructions,
            workspace=self.workspace,
            trusted=self.trusted,
            destructive=self.destructive,
            note=context.set_warning,
        )
        return knext.Table.from_pyarrow(said, row_ids="generate")
