"""A model of sentence-transformers in a folder: beside a slow and plain computation of the same."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from spindle.embedders.folder import FolderEmbedder
from spindle.errors import ConfigurationError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "rain", "song", "file", "the", "a", "of", "query", ":"]
WIDTH, HEADS, LAYERS, INNER, LONGEST = 8, 2, 2, 16, 12


def weights() -> dict[str, np.ndarray[Any, Any]]:
    chance = np.random.default_rng(7)

    def some(*shape: int) -> np.ndarray[Any, Any]:
        return chance.normal(0, 0.5, shape).astype(np.float32)

    made = {
        "embeddings.word_embeddings.weight": some(len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": some(LONGEST, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
        "embeddings.LayerNorm.weight": some(WIDTH),
        "embeddings.LayerNorm.bias": some(WIDTH),
    }
    for layer in range(LAYERS):
        for name, shape in (
            ("attention.self.query", (WIDTH, WIDTH)), ("attention.self.key", (WIDTH, WIDTH)),
            ("attention.self.value", (WIDTH, WIDTH)), ("attention.output.dense", (WIDTH, WIDTH)),
            ("intermediate.dense", (INNER, WIDTH)), ("output.dense", (WIDTH, INNER)),
        ):  # fmt: skip
            made[f"encoder.layer.{layer}.{name}.weight"] = some(*shape)
            made[f"encoder.layer.{layer}.{name}.bias"] = some(shape[0])
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            made[f"encoder.layer.{layer}.{name}.weight"] = some(WIDTH)
            made[f"encoder.layer.{layer}.{name}.bias"] = some(WIDTH)
    return made


def tokens(file: Path, *, marks: bool = True) -> None:
    made = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()  # pyright: ignore
    if marks:
        made.post_processor = TemplateProcessing(  # pyright: ignore
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    made.save(str(file))


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))


def bert(folder: Path, mode: str = "mean_tokens", **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    write(
        folder / "modules.json",
        [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds],
    )
    write(
        folder / "1_Pooling" / "config.json",
        {"word_embedding_dimension": WIDTH, f"pooling_mode_{mode}": True},
    )
    usual = {
        "model_type": "bert", "hidden_act": "gelu", "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS, "layer_norm_eps": 1e-12,
    }  # fmt: skip
    write(folder / "config.json", usual | config)
    save_file(weights(), folder / "model.safetensors")
    tokens(folder / "tokenizer.json")
    return folder


# --- the same, slowly: one text, one number at a time, as the paper has it


def slowly(parts: list[int]) -> list[list[float]]:
    table = {name: value.astype(float).tolist() for name, value in weights().items()}

    def normal(x: list[float], name: str) -> list[float]:
        middle = sum(x) / len(x)
        spread = math.sqrt(sum((value - middle) ** 2 for value in x) / len(x) + 1e-12)
        both = zip(x, table[f"{name}.weight"], table[f"{name}.bias"], strict=True)
        return [(value - middle) / spread * scale + shift for value, scale, shift in both]

    def linear(x: list[float], name: str) -> list[float]:
        return [
            sum(one * other for one, other in zip(x, row, strict=True)) + shift
            for row, shift in zip(table[f"{name}.weight"], table[f"{name}.bias"], strict=True)
        ]

    def added(*given: list[float]) -> list[float]:
        return [sum(values) for values in zip(*given, strict=True)]

    words, places = table["embeddings.word_embeddings.weight"], table["embeddings.position_embeddings.weight"]
    kind = table["embeddings.token_type_embeddings.weight"][0]
    rows = [
        normal(added(words[part], places[at], kind), "embeddings.LayerNorm") for at, part in enumerate(parts)
    ]
    size = WIDTH // HEADS
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        query, key, value = (
            [linear(row, f"{at}.attention.self.{name}") for row in rows] for name in ("query", "key", "value")
        )
        seen: list[list[float]] = []
        for own in query:
            joined: list[float] = []
            for head in range(HEADS):
                span = slice(head * size, (head + 1) * size)
                scores = [
                    math.exp(
                        sum(a * b for a, b in zip(own[span], other[span], strict=True)) / math.sqrt(size)
                    )
                    for other in key
                ]
                for column in range(size):
                    parts_of = zip(scores, value, strict=True)
                    joined.append(sum(s * v[span][column] for s, v in parts_of) / sum(scores))
            seen.append(joined)
        mixed = [
            normal(added(row, linear(s, f"{at}.attention.output.dense")), f"{at}.attention.output.LayerNorm")
            for row, s in zip(rows, seen, strict=True)
        ]
        rows = []
        for row in mixed:
            inner = [
                x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in linear(row, f"{at}.intermediate.dense")
            ]
            rows.append(normal(added(row, linear(inner, f"{at}.output.dense")), f"{at}.output.LayerNorm"))
    return rows


def ids(text: str) -> list[int]:
    known = {word: place for place, word in enumerate(WORDS)}
    return [2, *(known.get(word, 1) for word in text.split()), 3]


def mean(rows: list[list[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


TEXTS = ["rain", "the song of the rain", "", "a file", "the the the the the the the the", "nothing known"]


async def test_bert_is_computed_as_the_paper_says_whatever_stands_beside_a_text(tmp_path: Path) -> None:
    embedder = FolderEmbedder(bert(tmp_path / "model"))
    found = await embedder.embed(TEXTS, "tool")
    for text, vector in zip(TEXTS, found, strict=True):
        assert np.allclose(vector, mean(slowly(ids(text))), atol=1e-4), text
        alone = await embedder.embed([text], "tool")
        assert np.allclose(vector, alone[0], atol=1e-5), text
    await embedder.close()


async def test_the_first_part_stands_for_the_text_where_the_folder_says_so(tmp_path: Path) -> None:
    embedder = FolderEmbedder(bert(tmp_path / "model", "cls_token"))
    (found,) = await embedder.embed(["a file"], "tool")
    assert np.allclose(found, slowly(ids("a file"))[0], atol=1e-4)


async def test_a_text_is_cut_where_the_model_ends(tmp_path: Path) -> None:
    folder = bert(tmp_path / "model")
    long, cut = await FolderEmbedder(folder).embed(["song " * 500, "song " * (LONGEST - 2)], "tool")
    assert np.allclose(long, cut, atol=1e-5)
    write(folder / "sentence_bert_config.json", {"max_seq_length": 5})
    long, cut = await FolderEmbedder(folder).embed(["song " * 500, "song song song"], "tool")
    assert np.allclose(long, cut, atol=1e-5)


async def test_questions_are_marked_as_the_folder_says(tmp_path: Path) -> None:
    folder = bert(tmp_path / "model")
    write(
        folder / "config_sentence_transformers.json", {"prompts": {"query": "query : ", "document": "the "}}
    )
    embedder = FolderEmbedder(folder)
    (question,), (tool,) = await embedder.embed(["rain"], "query"), await embedder.embed(["rain"], "tool")
    assert np.allclose(question, mean(slowly(ids("query : rain"))), atol=1e-4)
    assert np.allclose(tool, mean(slowly(ids("the rain"))), atol=1e-4)


def static(folder: Path) -> Path:
    write(
        folder / "modules.json",
        [{"type": "sentence_transformers.models.StaticEmbedding", "path": "0_Static"}],
    )
    (folder / "0_Static").mkdir()
    table = weights()["embeddings.word_embeddings.weight"]
    save_file({"embedding.weight": table}, folder / "0_Static" / "model.safetensors")
    tokens(folder / "0_Static" / "tokenizer.json", marks=False)
    return folder


async def test_a_static_model_is_the_middle_of_its_words(tmp_path: Path) -> None:
    found, empty = await FolderEmbedder(static(tmp_path / "model")).embed(["the rain", ""], "query")
    table = weights()["embeddings.word_embeddings.weight"]
    assert np.allclose(found, (table[7] + table[4]) / 2, atol=1e-6)
    assert not np.asarray(empty).any()


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    folder = bert(tmp_path / "model")
    before = FolderEmbedder(folder).model
    assert FolderEmbedder(folder).model == before
    changed = weights()
    changed["embeddings.word_embeddings.weight"][0, 0] += 1
    save_file(changed, folder / "model.safetensors")
    assert FolderEmbedder(folder).model != before


@pytest.mark.parametrize("config", [{"model_type": "mpnet"}, {"hidden_act": "relu"}])
def test_a_model_of_another_kind_says_what_to_install(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.embedders.folder.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="is of a kind that is not built in: Transformer") as caught:
        FolderEmbedder(bert(tmp_path / "model", **config))
    assert caught.value.hint == "pip install sentence-transformers"


def test_a_way_of_pooling_that_is_not_built_in_is_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.embedders.folder.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="not built in"):
        FolderEmbedder(bert(tmp_path / "model", "max_tokens"))


def damage_nothing_there(folder: Path) -> None:
    for file in folder.rglob("*.json"):
        file.unlink()


def damage_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff" * 100)


def damage_shape(folder: Path) -> None:
    made = weights()
    del made["encoder.layer.1.output.dense.bias"]
    save_file(made, folder / "model.safetensors")


def damage_tokens(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


def damage_modules(folder: Path) -> None:
    (folder / "modules.json").write_text('[{"type": 1}]')


def damage_outside(folder: Path) -> None:
    write(folder / "modules.json", [{"type": "models.Transformer", "path": "../../etc"}])


def damage_config(folder: Path) -> None:
    (folder / "config.json").write_text("[")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_nothing_there, "holds no model"),
        (damage_weights, "weights of a model cannot be read"),
        (damage_shape, "not those of its config.json"),
        (damage_tokens, "tokens of a model cannot be read"),
        (damage_modules, "cannot be read"),
        (damage_outside, "outside of its folder"),
        (damage_config, "cannot be read"),
    ],
)
def test_a_damaged_folder_says_what_is_wrong(tmp_path: Path, damage: Any, message: str) -> None:
    folder = bert(tmp_path / "model")
    damage(folder)
    with pytest.raises(ConfigurationError, match=message):
        FolderEmbedder(folder)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"search\.folder is not a folder: .*nowhere"):
        FolderEmbedder(tmp_path / "nowhere")
