"""The configured sources of a workspace: their settings, typed when needed, and their adapters."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.auth.credentials import is_per_user
from spindle.domain.json_schema import canonical, is_object
from spindle.domain.trail import workspace_id
from spindle.errors import ConfigurationError, NotFoundError, did_you_mean
from spindle.plugins import config_models, source_class
from spindle.ports.source import RelaySource, Source
from spindle.remedies import Remedy
from spindle.settings.expand import MissingVariable, expand, missing_variables, named_secrets, secret_values

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Note, SourceNotice
    from spindle.settings import Settings


class SourceSet:
    """Holds every source by name. Settings are validated all together, the first time one is used."""

    def __init__(self, settings: Settings, note: Note, environ: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._note = note
        self._environ = os.environ if environ is None else environ
        self._tables = dict(settings.sources)
        self._validated: dict[str, SourceConfig] | None = None
        self._mistakes: ConfigurationError | None = None
        self._configs: dict[str, SourceConfig] = {}
        self._made: dict[str, Source[Any]] = {}
        self._handed_over: set[str] = set()
        """Those that were made in Python."""
        self._table_marks: dict[str, str] = {}
        self._classes: dict[str, type[Source[Any]] | None] = {}
        self.elsewhere: set[str] = set()
        """Those that no file of this machine defines, as far as their kinds have been looked at."""
        self.notices: list[SourceNotice] = []
        """The listeners for news from the servers of all sources, other than changed tools."""

    def replaced(self, settings: Settings, environ: Mapping[str, str] | None = None) -> SourceSet:
        """Returns the same for other settings, all of them valid. Sources whose settings did not change
        are kept as they are, and so are those made in Python. `environ` has the values that they use."""
        other = SourceSet(settings, self._note, self._environ if environ is None else environ)
        other.notices = self.notices
        for name in self._handed_over:
            other.add(name, self._made[name], self._configs[name])
        other.validate()
        for name in other.unchanged_from(self):
            if name in self._configs:
                other._configs[name] = self._configs[name]
            if name in self._made:
                other._made[name] = self._made[name]
        return other

    def unchanged_from(self, before: SourceSet) -> set[str]:
        """Returns the names of the sources whose settings are the same in both."""
        return {name for name, table in self._tables.items() if before._tables.get(name) == table}

    def __contains__(self, name: str) -> bool:
        return name in self._tables

    @property
    def names(self) -> list[str]:
        """The names of all sources, sorted."""
        return sorted(self._tables)

    @property
    def root(self) -> Path:
        """The folder of the workspace."""
        return self._settings.root

    @property
    def workspace(self) -> str:
        """The id of the workspace."""
        return workspace_id(self._settings.state_folder)

    @property
    def read_at(self) -> float:
        """The time at which the settings were read."""
        return self._settings.read_at

    def require_trust(self) -> None:
        """Raises UntrustedError if somebody else may have changed the workspace since it was opened."""
        self._settings.require_trust_still()

    @property
    def trust_mark(self) -> str:
        """A text that changes when a person says once more that the workspace may run."""
        return self._settings.trust_mark()

    def table(self, name: str) -> Mapping[str, Any]:
        """Returns a source's settings as they are written."""
        self._require(name)
        return self._tables[name]

    def origin(self, name: str) -> str:
        """Returns the place where a source is configured."""
        return self._settings.origin(name)

    def kind(self, name: str) -> str:
        """Returns the kind of a source."""
        return str(self.table(name)["kind"])

    def add(self, name: str, source: Source[Any], config: SourceConfig) -> None:
        """Adds a source that was made in Python instead of being configured."""
        if name in self._tables:
            raise ConfigurationError(f"there is already a source {name!r}", hint="choose another name")
        self._tables[name] = {"kind": config.kind}
        self._handed_over.add(name)
        self.elsewhere.add(name)
        self._made[name] = source
        self._configs[name] = config

    def validate(self) -> None:
        """Checks all settings before anything is started."""
        if self._mistakes is not None:
            raise ConfigurationError(self._mistakes.message, details=self._mistakes.details)
        if self._validated is None:
            written = {name: table for name, table in self._tables.items() if name not in self._handed_over}
            models = config_models({str(table["kind"]) for table in written.values()})
            try:
                self._validated = self._settings.validate(models, self._environ)
            except ConfigurationError as error:
                self._mistakes = error  # each source that is asked would find them all again
                raise

    def config(self, name: str) -> SourceConfig:
        """Returns the source's settings with every `${VAR}` replaced."""
        known = self._configs.get(name)
        if known is not None:
            return known
        self._require(name)
        try:
            self.validate()
        except ConfigurationError as error:
            # It brings Pydantic, which nobody needs who only lists what is stored.
            from spindle.settings.validate import own_mistakes

            raise own_mistakes(error, f"{self.origin(name)}: sources.{name}") from None
        assert self._validated is not None
        config = expand(name, self._validated[name], self._environ)
        self._configs[name] = config
        return config

    def get(self, name: str) -> Source[Any]:
        """Returns the source, made the first time it is asked for."""
        made = self._made.get(name)
        if made is None:
            config = self.config(name)
            cls = self._class(name)
            assert cls is not None, "an unknown kind does not pass validation"
            made = self._made[name] = cls(name, config, self._settings.root, self._note)
            if isinstance(made, RelaySource):
                made.notices = self.notices
        return made

    def relays(self, name: str) -> bool:
        """True if its sessions also pass on resources and prompts."""
        if name in self._handed_over:
            return isinstance(self._made[name], RelaySource)
        kind = self._class(name)
        return kind is not None and issubclass(kind, RelaySource)

    def asks_users(self, name: str) -> bool:
        """True if each of its users gives a consent of their own."""
        if name in self._handed_over:
            return is_per_user(self._configs[name])
        # As it is written: whoever lists what is stored should not pay for typed settings.
        auth = self.table(name).get("auth")
        return is_object(auth) and auth.get("type") == "oauth"

    def secrets(self, name: str) -> set[str]:
        """Returns the values taken from the environment for this source."""
        return secret_values(self._tables.get(name, {}), self._environ)

    def named_secrets(self, name: str) -> set[str]:
        """Returns the values that stand in its settings under the name of a secret."""
        return named_secrets(self._tables.get(name, {}), self._environ)

    def missing_variables(self, name: str) -> list[MissingVariable]:
        """Returns the variables that settings of a source name and that are not set, or empty."""
        return list(missing_variables(self._tables.get(name, {}), self._environ))

    def signature(self, name: str) -> str:
        """Returns a mark of a source's settings and, where the source can tell, of its definition."""
        return self.signature_with(name, self.local_signature(name))

    def signature_with(self, name: str, local: str | None) -> str:
        """The same where the part that its definition gives is known."""
        table_mark = self._table_marks.get(name)
        if table_mark is None:
            digest = hashlib.sha256(canonical(self.table(name))).hexdigest()
            table_mark = self._table_marks[name] = digest[:32]
        return f"{table_mark}:{local or ''}"

    def local_signature(self, name: str) -> str | None:
        """The part of the signature that a source with a definition on this machine gives."""
        if name in self.elsewhere:
            return None
        cls = self._class(name)
        return cls.signature(self._tables[name], self._settings.root) if cls is not None else None

    def _class(self, name: str) -> type[Source[Any]] | None:
        # Kept, because finding the class of a plugin looks through all installed packages.
        if name not in self._classes:
            found = self._classes[name] = source_class(self.kind(name))
            if found is None or found.signature is Source.signature:
                self.elsewhere.add(name)
        return self._classes[name]

    def _require(self, name: str) -> None:
        if name not in self._tables:
            hint, remedy = did_you_mean(name, self._tables), Remedy("list_sources")
            raise NotFoundError(f"there is no source {name!r}", hint=hint, remedy=remedy, source=name)
