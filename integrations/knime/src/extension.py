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
