"""The rules by which texts of tools are looked through: what they find, why, and how grave that is.

A rule finds words that a description has no need of. They are searched in linear time, whatever the text.
What a rule does not know it does not find; a model that was told what to do all the same is held back by the
flow of trust (`calls/taint`).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pydantic_core import SchemaValidator, core_schema

from spindle.domain.finding import Gravity

MAX_QUOTED: Final = 80
MAX_QUOTED_FROM: Final = 50_000
"""Characters in which the words that were found are looked for, to be shown."""


def _linear(pattern: str) -> SchemaValidator:
    # Rust's expressions: a server chose the text, and the time to search it must not be its choice too.
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


@dataclass(frozen=True)
class TextRule:
    """Words that a rule finds in a text that was folded. `words`: one of them is in whatever it finds."""

    name: str
    reason: str
    gravity: Gravity
    words: tuple[str, ...]
    pattern: str

    @cached_property
    def _finding(self) -> SchemaValidator:
        return _linear(self.pattern)

    @cached_property
    def _quoting(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def search(self, text: str) -> str | None:
        """Returns the words that are found in a folded text, as far as they can be quoted."""
        if not any(word in text for word in self.words) or not self._finding.isinstance_python(text):
            return None
        found = self._quoting.search(text[:MAX_QUOTED_FROM])
        quoted = found[0].strip() if found is not None else ""
        return quoted if len(quoted) <= MAX_QUOTED else f"{quoted[:MAX_QUOTED]}…"


def _rule(name: str, reason: str, gravity: Gravity, words: str, *patterns: str) -> TextRule:
    return TextRule(name, reason, gravity, tuple(words.split(";")), "|".join(patterns))


_END: Final = r"(?:[^.\w/-]|\.(?: |$)|$)"
_PRIVATE: Final = (
    # Not the public part of a key, which ends in .pub.
    rf"(?:~|\$home|%userprofile%|/root|/home/[a-z0-9._-]{{1,32}})[/\\]{{1,2}}\.ssh(?:[/\\]{{1,2}}[a-z0-9_]{{1,32}})?{_END}"
    r"|(?:~|\$home|%userprofile%|/root|/home/[a-z0-9._-]{1,32})[/\\]{1,2}"
    r"\.(?:aws|kube|gnupg|cursor|claude|docker|netrc)\b"
    rf"|\bid_(?:rsa|ed25519|ecdsa){_END}|/etc/shadow\b|\bmcp\.json\b|\bclaude_desktop_config\b"
)
"""Files of a person that no tool has to ask a model for."""
_ASK: Final = r"\b(?:ignore|disregard|forget|override|bypass)\b"
_ORDERS: Final = r"(?:instructions?|prompts?|directives?|guardrails?|system messages?|safety rules?)\b"
_PORTUGUESE: Final = r"(?:instru[cç][õo]es|orienta[cç][õo]es|ordens)"
_JAPANESE: Final = r"(?:指示|命令|指令|プロンプト|ルール)(?:を|は)(?:すべて|全て|全部|一切|完全に){0,2}"

RULES: Final = (
    _rule(
        "overrides instructions",
        "it tells the model to give up its instructions",
        "serious",
        "ignore;disregard;forget;override;bypass;ignorier;vergiss;ignora;oublie;忽略;無視;игнорир;忘れ"
        ";dimentic;trascur;desconsider;esque",
        _ASK + r".{0,30}\b(?:previous|prior|above|earlier|preceding|other|your|system)\b.{0,20}\b" + _ORDERS,
        _ASK + r" (?:all|any|everything)(?: of)?(?: the| your)? (?:rules|instructions?|prompts?|you)\b",
        r"\bforget (?:everything|all) (?:you|that|above|before)\b",
        r"\b(?:ignorier|vergiss)[a-z]{0,3}\b.{0,30}\b(?:anweisung|instruktion|vorgabe)",
        r"\b(?:ignora|ignore|ignorez|oubliez?)\b.{0,30}\b(?:instrucciones|instructions)\b.{0,20}"
        r"\b(?:anteriores|previas|pr[eé]c[eé]dentes)",
        r"\b(?:ignora|dimentica|trascura)(?:re|te)?\b[^.;!?]{0,30}"
        r"\b(?:istruzioni\b.{0,20}\b(?:precedenti|ricevute|di sistema)|(?:precedenti|tue) istruzioni)",
        r"\b(?:ignor|desconsider|esque[cç])(?:a|e|ar|er|em)\b[^.;!?]{0,30}"
        rf"\b(?:{_PORTUGUESE}\b.{{0,20}}\b(?:anteriores|pr[eé]vias|acima|do sistema)"
        rf"|(?:suas|tuas) {_PORTUGUESE})",
        r"忽略.{0,10}(?:指令|指示|提示)|игнорир[а-я]{1,5}.{0,30}(?:инструкц|указани)",  # noqa: RUF001
        # Of earlier orders, or as an order: a tool may well say that it ignores commands that are not valid.
        rf"(?:以前|これまで|今まで|上記|前|先|元|すべて|全て|システム|あなた)の[^。]{{0,12}}{_JAPANESE}(?:無視|忘れ)",
        rf"{_JAPANESE}(?:無視(?:してください|して下さい|しろ|せよ|しなさい)|忘れ(?:てください|て下さい|ろ|なさい))",
    ),
    _rule(
        "keeps the user in the dark",
        "it tells the model to hide something from the user",
        "serious",
        "user;human;secret from;nutzer;utilis;usuari;usuári;utente;ユーザ;利用者",
        r"\b(?:do not|don'?t|never|must not|should not|without)\b.{0,30}"
        r"\b(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|reveal(?:ing)?|let(?:ting)?|warn(?:ing)?)\b"
        r".{0,40}\b(?:the|your|this) (?:user|human)\b",
        r"\b(?:keep|hide|conceal)\b.{0,30}\b(?:secret|hidden|it|this)? ?from the (?:user|human)\b",
        r"\bthe user (?:must|should|may|can) (?:not|never) (?:know|learn|see|notice|find out)\b",
        r"\b(?:sag|erzähl|verrat)[a-z]{0,2}\b.{0,30}\bnutzer[a-z]{0,4} (?:nichts|nicht)\b",
        r"\bne (?:dis|dites|mentionnez?)\b.{0,40}\butilisateur",
        r"\bno (?:le )?(?:digas|menciones)\b.{0,40}\busuario",
        r"\bnon (?:dir|menzionar|rivelar|mostrar)(?:e|lo|la|li|le)\b.{0,40}\ball'utente"
        r"|\b(?:non|senza) (?:avvisare|avvertire|informare) l'utente",
        # Not `informe o usuário`: that is to state a name of a user.
        r"\bn[aã]o (?:diga|conte|mencione|revele|mostre)\b.{0,40}\bao usu[aá]rio"
        r"|\b(?:n[aã]o (?:avise|alerte)|sem (?:avisar|alertar)) o usu[aá]rio",
        r"(?:ユーザー?|利用者)に(?:は|も)?[^。]{0,20}(?:言わ|伝え|知らせ|教え|見せ|明かさ|話さ)ない(?:で|こと)"
        r"|(?:ユーザー?|利用者)に(?:は|も)?(?:秘密|内緒|内密)に",
    ),
    _rule(
        "imitates a role",
        "it imitates the marks by which a model tells who speaks",
        "serious",
        "<|;[inst;[/inst;<<sys;<important;<secret;<system;</system;system prompt:;system message:"
        ";system instruction",
        r"<\|(?:im_start|im_end|system|user|assistant|eot_id|start_header_id|begin_of_text)\b",
        # AWS writes `<important>` around what is important.
        r"\[/?inst\]|<<sys>>|<(?:important|secret)>[^<]{0,300}\b(?:you|must|always|never|before|first)\b",
        r"</?system[-_ ](?:prompt|message|reminder|instructions?)>|<system>[^<]{0,200}\byou\b",
        r"(?:^|[.!?:|#*] ?)(?:new |updated )?system (?:prompt|message|instructions?): ?you\b",
    ),
    _rule(
        "wants secrets",
        "it asks for files or texts that are nobody's business",
        "serious",
        ".ssh;.aws;.kube;.gnupg;.cursor;.claude;.docker;.netrc;id_rsa;id_ed25519;id_ecdsa;/etc/shadow;mcp.json"
        ";claude_desktop_config;system prompt;your instructions;conversation",
        r"\b(?:read|cat|include|copy|send|pass|attach)\b.{0,60}(?:" + _PRIVATE + ")",
        r"(?:" + _PRIVATE + r").{0,80}\b(?:pass|send|include|put|provide) (?:it|its|them|that)\b",
        r"\b(?:send|pass|include|put|provide|append|reveal|repeat)\b.{0,40}"
        r"\byour (?:system prompt|instructions)\b",
        r"\b(?:pass|put|include|append|copy|forward)\b.{0,40}"
        r"\b(?:entire|whole|full|complete|all previous)\b.{0,20}\bconversation\b.{0,60}"
        r"\b(?:argument|parameter|field|context|note)\b",
    ),
    _rule(
        "new orders",
        "it gives the model a task of its own",
        "serious",
        "you are now;instruction for;instructions for;task for;instruction is to;instructions is to"
        ";task is to;your new;your real;your actual",
        r"\byou are now (?:a |an |in )?[a-z]{1,20}(?: [a-z]{1,20})? (?:mode|assistant|agent|model|bot)\b",
        r"\b(?:new|real|actual|updated) (?:instructions?|task) "
        r"(?:for (?:you|the (?:model|assistant|agent|ai))|is to)\b",
        r"\byour (?:new|real|actual) (?:task|goal|instructions?|job|role) (?:is|are)\b",
    ),
    _rule(
        "steers other tools",
        "it says how tools other than itself are to be used",
        "note",
        "any other tool;other tools;another tool;all tools;every tool;any tool;each tool",
        r"\b(?:before|after|when(?:ever)?|instead of|prior to|every time|must|always|never)\b.{0,60}"
        r"\b(?:any other|other|another|all|every|any|each) tools?\b",
    ),
    _rule(
        "urges its use",
        "it tells the model that it must be called",
        "note",
        "this tool;this function",
        r"\b(?:you must|must always|always|you should always)\b.{0,20}\b(?:call|use|invoke|run)\b.{0,10}"
        r"\bthis (?:tool|function)\b",
    ),
    _rule(
        "speaks to the model in a comment",
        "it holds a comment that pages do not show",
        "note",
        "<!--",
        r"<!--[^>]{0,200}\b(?:you|assistant|model|agent|llm|must)\b",
    ),
)  # fmt: skip

_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
)
_UNSEEN: Final = re.compile(f"[{_INVISIBLE}\u202a-\u202e\u2066-\u2069\ufe00-\ufe0f\U000e0000-\U000e0fff]+")
_HIDDEN: Final[tuple[tuple[re.Pattern[str], str, Gravity], ...]] = (
    (
        # A flag of emoji is a black flag and tags.
        re.compile("(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0020-\U000e007f]{2}"),
        "it holds letters that are not shown (Unicode tags)",
        "serious",
    ),
    (
        re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4}"),
        "it holds a run of signs that are not shown (variation selectors)",
        "serious",
    ),
    (re.compile(f"[{_INVISIBLE}]{{6}}"), "it holds a run of characters that are not shown", "serious"),
    (
        re.compile("[\u202a\u202b\u202d\u202e\u2066-\u2068]"),
        "it turns the order of its words around (bidirectional overrides)",
        "serious",
    ),
    (
        re.compile(f"(?<=[A-Za-z])[{_INVISIBLE}](?=[A-Za-z])"),
        "words are split by characters that are not shown",
        "note",
    ),
)
_ESCAPES: Final = re.compile("[\x1b\x9b][\x20-\x7e]")
_WIDE: Final = re.compile("[\u00a0\u2000-\u200a\u3000]{60}")
_FAR: Final = re.compile(r"(?<!\s)[^\S\n]{120,}+\S|(?<!\s)(?:[^\S\n]*+\n){30,}+[^\S\n]*+\S")
HIDES: Final = "hides text"

_LATIN: Final = str.maketrans(
    "аеорсхуіјѕһԁԛԝєкмтвнАЕОРСХУІЈЅКМТВНαεορχυικνΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcxyijshdqwekmtbhAEOPCXYIJSKMTBHaeopxyikvABEZHIKMNOPTYX",
)
"""Letters of other scripts that look like Latin ones."""
_OTHER_SCRIPT: Final = re.compile("[\u0370-\u03ff\u0400-\u052f\u13a0-\u13ff\ua4d0-\ua4ff]")
_MIXED: Final = re.compile("[A-Za-z]")
_ALIKE: Final = str.maketrans({"0": "o", "O": "o", "1": "l", "I": "l", "|": "l"})

_FIRST: Final = "|".join(
    # Besides the words of the rules: blanks and escapes, as JSON writes them.
    [re.escape(word) for rule in RULES for word in rule.words]
    + [" {60}", r"(?:\\n| ){15}", r"\\t{30}", r"\\u00"]
)


_first: Final = _linear(f"(?i){_FIRST}")


def may_hold(text: bytes) -> bool:
    """False if no rule can find anything in a definition, which is given as JSON."""
    return not text.isascii() or _first.isinstance_python(text.decode())


def folded(text: str) -> str:
    """Returns a text as a reader takes it: without what is not seen, with look-alike letters as the Latin
    ones, in lower case and with single blanks."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).replace("\u2019", "'")
        if _OTHER_SCRIPT.search(text) is not None:
            # As it is written too: it may be of the other script.
            text = f"{text} | {text.translate(_LATIN)}"
    return " ".join(text.lower().split())


def hidden_in(text: str) -> tuple[str, Gravity] | None:
    """Returns what a text hides, and how grave that is."""
    if ("\x1b" in text or "\x9b" in text) and _ESCAPES.search(text) is not None:
        return "it holds escapes that a terminal obeys", "serious"
    if not text.isascii() and _UNSEEN.search(text) is not None:
        for pattern, reason, gravity in _HIDDEN:
            if pattern.search(text) is not None:
                return reason, gravity
    if _has_blanks(text) and _FAR.search(text) is not None:
        return "a part of it is moved out of sight by blanks", "note"
    return None


def _has_blanks(text: str) -> bool:
    if " " * 60 in text or "\t" * 30 in text:
        return True
    if text.count("\n") >= 30 and "\n" * 15 in text.replace(" ", ""):
        return True
    return not text.isascii() and _WIDE.search(text) is not None


def is_mixed(name: str) -> bool:
    """True if a name mixes Latin letters with those of a script that has the same shapes."""
    if name.isascii():
        return False
    return any(_MIXED.search(word) and _OTHER_SCRIPT.search(word) for word in re.split(r"[\W\d_]+", name))


def shape(name: str) -> str:
    """Returns one text for all names that look the same at a glance."""
    return name.translate(_LATIN).translate(_ALIKE).replace("rn", "m").replace("vv", "w").lower()
