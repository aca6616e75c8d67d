"""Tools as popular servers describe them, for tests of search."""

from __future__ import annotations

from spindle.domain.tool import Tool, ToolSpec

_LISTING = """
github.create_issue | Create a new issue in a GitHub repository | owner repo title body labels
github.get_issue | Get details of a specific issue in a GitHub repository. | owner repo issue_number
github.list_issues | List issues in a GitHub repository with filtering options | owner repo state labels since
github.search_issues | Search for issues and pull requests across GitHub repositories | q sort order
github.add_issue_comment | Add a comment to an existing issue | owner repo issue_number body
github.create_pull_request | Create a new pull request in a GitHub repository | owner repo title head base
github.merge_pull_request | Merge a pull request | owner repo pull_number merge_method
github.get_pull_request_files | Get the list of files changed in a pull request | owner repo pull_number
github.create_pull_request_review | Create a review on a pull request | owner repo pull_number event
github.search_code | Search for code across GitHub repositories | q order page
github.search_repositories | Search for GitHub repositories | query page
github.search_users | Search for users on GitHub | q sort
github.create_repository | Create a new GitHub repository in your account | name private
github.fork_repository | Fork a GitHub repository to your account or specified organization | owner repo
github.create_branch | Create a new branch in a GitHub repository | owner repo branch from_branch
github.list_commits | Get list of commits of a branch in a GitHub repository | owner repo sha
github.push_files | Push multiple files to a GitHub repository in a single commit | owner repo branch files
github.get_file_contents | Get the contents of a file or directory from a GitHub repository | owner repo path
github.create_or_update_file | Create or update a single file in a GitHub repository | owner repo path content
filesystem.read_text_file | Read the complete contents of a file from the file system as text | path tail head
filesystem.read_media_file | Read an image or audio file. Returns the base64 encoded data and MIME type | path
filesystem.read_multiple_files | Read the contents of multiple files simultaneously. | paths
filesystem.write_file | Create a new file or completely overwrite an existing file | path content
filesystem.edit_file | Make line-based edits to a text file. Returns a git-style diff. | path edits dryRun
filesystem.create_directory | Create a new directory or ensure a directory exists. | path
filesystem.list_directory | Get a detailed listing of all files and directories in a specified path. | path
filesystem.directory_tree | Get a recursive tree view of files and directories as a JSON structure. | path
filesystem.move_file | Move or rename files and directories. | source destination
filesystem.search_files | Recursively search for files and directories matching a pattern. | path pattern
filesystem.get_file_info | Retrieve detailed metadata about a file or directory: size, creation time. | path
filesystem.list_allowed_directories | Returns the list of directories that this server may access. |
slack.post_message | Post a new message to a Slack channel | channel_id text
slack.reply_to_thread | Reply to a specific message thread in Slack | channel_id thread_ts text
slack.add_reaction | Add a reaction emoji to a message | channel_id timestamp reaction
slack.list_channels | List public channels in the workspace with pagination | limit cursor
slack.get_channel_history | Get recent messages from a channel | channel_id limit
slack.get_thread_replies | Get all replies in a message thread | channel_id thread_ts
slack.get_users | Get a list of all users in the workspace with their basic profile information | cursor
slack.get_user_profile | Get detailed profile information for a specific user | user_id
time.get_current_time | Get current time in a specific timezone | timezone
time.convert_time | Convert time between timezones | source_timezone time target_timezone
fetch.fetch | Fetches a URL from the internet and extracts its contents as markdown. | url max_length raw
git.git_status | Shows the working tree status | repo_path
git.git_diff_unstaged | Shows changes in the working directory that are not yet staged | repo_path
git.git_commit | Records changes to the repository | repo_path message
git.git_add | Adds file contents to the staging area | repo_path files
git.git_log | Shows the commit logs | repo_path max_count
git.git_checkout | Switches branches | repo_path branch_name
memory.create_entities | Create multiple new entities in the knowledge graph | entities
memory.create_relations | Create multiple new relations between entities in the knowledge graph | relations
memory.search_nodes | Search for nodes in the knowledge graph based on a query | query
memory.delete_entities | Delete multiple entities and their relations from the knowledge graph | entityNames
postgres.query | Run a read-only SQL query | sql
postgres.list_tables | List the tables of the database with their columns | schema
sqlite.read_query | Execute a SELECT query on the SQLite database | query
sqlite.write_query | Execute an INSERT, UPDATE, or DELETE query on the SQLite database | query
browser.browser_navigate | Navigate to a URL | url
browser.browser_click | Perform click on a web page | element ref
browser.browser_take_screenshot | Take a screenshot of the current page | filename fullPage
browser.browser_type | Type text into editable element | element text submit
maps.maps_geocode | Convert an address into geographic coordinates | address
maps.maps_directions | Get directions between two points | origin destination mode
maps.maps_search_places | Search for places using Google Places API | query location radius
calendar.createEvent | Create an event in the user's primary calendar | summary start end attendees
calendar.listEvents | List upcoming events of a calendar | timeMin timeMax
gmail.sendEmail | Send a new email, optionally with attachments | to subject body cc attachments
gmail.searchEmails | Search emails using Gmail search syntax | query maxResults
gmail.trashMessage | Move an email message to the trash | messageId
weather.getForecast | Weather forecast for a location, up to seven days ahead | latitude longitude days
weather.getAlerts | Active weather alerts of a US state | state
jira.createTicket | File a new ticket in a project | project summary description
jira.transitionTicket | Move a ticket to another status | ticketKey status
stripe.create_refund | Refund a charge that was previously created | charge amount
stripe.list_customers | List customers, optionally by email | email limit
stripe.create_payment_link | Create a payment link for a product | price quantity
notion.API-post-search | Search pages and databases by title | query filter
notion.API-create-a-page | Create a page in Notion | parent properties
"""


def tools() -> list[Tool]:
    made: list[Tool] = []
    for line in _LISTING.strip().splitlines():
        name, description, parameters = (part.strip() for part in line.split("|"))
        source, _, local = name.partition(".")
        properties = {parameter: {"type": "string"} for parameter in parameters.split()}
        spec = ToolSpec(local, description, {"type": "object", "properties": properties})
        made.append(Tool(name, source, "mcp", spec, spec.fingerprint))
    return made
