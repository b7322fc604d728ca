"""The modules of the packer; tests/e2e/pack/test_pack_command.py runs the whole command."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.core.errors import UsageError
from mxtrain.data.packing import tokens
from mxtrain.data.packing.journal import Journal, PackCheckpoint
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.plan import plan_outputs
from mxtrain.data.packing.preparation import map_in_order
from mxtrain.data.records.record_file import index_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.sources import order
from mxtrain.data.sources.item import BadItem, Item, MadeItems


def item(name, label):
    return Item(name, label)


def make_items(class_sizes):
    return [item(f"{label}/{n}.png", label) for label, size in enumerate(class_sizes) for n in range(size)]


# Order and split

class_sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6)
shares = st.floats(0.01, 0.99)


@given(sizes=class_sizes, share=shares, seed=st.integers(-5, 2**40))
def test_a_split_is_complete_disjoint_and_stratified(sizes, share, seed):
    items = make_items(sizes)
    train, val = order.split(items, share, seed)
    assert sorted(i.name for i in train + val) == sorted(i.name for i in items)
    for label, size in enumerate(sizes):
        num_train = sum(i.label == label for i in train)
        assert num_train >= 1
        if size > 1:
            assert num_train < size
            assert abs(num_train - share * size) <= 0.5 or num_train in (1, size - 1)


@given(sizes=class_sizes, share=shares, data=st.data())
def test_the_order_items_are_found_in_does_not_matter(sizes, share, data):
    items = make_items(sizes)
    assert order.split(data.draw(st.permutations(items)), share, 3) == order.split(items, share, 3)


def test_another_seed_is_another_order_and_split():
    items = make_items([50, 50])
    assert order.shuffled(items, 1) != order.shuffled(items, 2)
    assert {i.name for i in order.split(items, 0.5, 1)[0]} != {i.name for i in order.split(items, 0.5, 2)[0]}


def test_classes_are_mixed():
    labels = [i.label for i in order.shuffled(make_items([500, 500]), 0)]
    changes = sum(a != b for a, b in zip(labels, labels[1:]))
    assert 400 < changes < 600


def test_items_keep_their_side_when_others_are_added():
    items = make_items([1000])
    before = {i.name for i in order.split(items, 0.9, 0)[1]}
    after = {i.name for i in order.split(make_items([1100]), 0.9, 0)[1]}
    assert len(before - after) <= 20


def test_items_whose_label_is_no_class_are_divided_as_one():
    items = [item(f"{n}.png", (float(n), 0.0)) for n in range(100)]
    assert len(order.split(items, 0.9, 0)[0]) == 90


def test_items_that_are_made_as_they_are_read_have_the_same_order_and_split():
    items = make_items([30, 20])
    made = MadeItems(len(items), lambda position: items[position])
    assert list(order.shuffled(made, 3)) == order.shuffled(items, 3)
    for keeps_order in (False, True):
        sides = order.split(made, 0.7, 3, keeps_order)
        assert tuple(map(list, sides)) == order.split(items, 0.7, 3, keeps_order)
    assert made[-1] == items[-1] and list(made[3:5]) == items[3:5]


def test_names_decide_where_hashes_agree(monkeypatch):
    monkeypatch.setattr(order, "_keys", lambda items, seed: [5, 1, 5, 5])
    items = [item(name, 0) for name in "cabd"]
    assert "".join(each.name for each in order.shuffled(items, 0)) == "abcd"


# Plan


def paths_of(parts, folder):
    return [str(path.relative_to(folder)) for part in parts for path in part.paths]


def test_the_names_of_parts_and_shards(tmp_path):
    items = make_items([10, 10])
    assert paths_of(plan_outputs(items, tmp_path, Options()), tmp_path) == ["data.rec"]
    assert paths_of(plan_outputs(items, tmp_path / "pets.rec", Options()), tmp_path) == ["pets.rec"]
    assert paths_of(plan_outputs(items, tmp_path / "pets.rec", Options(num_shards=2)), tmp_path) == [
        "pets-00000-of-00002.rec",
        "pets-00001-of-00002.rec",
    ]
    assert paths_of(plan_outputs(items, tmp_path, Options(train_share=0.5, num_shards=2)), tmp_path) == [
        "train-00000-of-00002.rec",
        "train-00001-of-00002.rec",
        "val-00000-of-00002.rec",
        "val-00001-of-00002.rec",
    ]


def test_without_shuffling_both_sides_keep_the_sources_order(tmp_path):
    items = make_items([30, 30])
    shuffled = plan_outputs(items, tmp_path, Options(train_share=0.7))
    kept = plan_outputs(items, tmp_path, Options(train_share=0.7, shuffle=False))
    for one, other in zip(shuffled, kept):
        assert set(one.items) == set(other.items)
        assert list(other.items) == sorted(other.items, key=items.index)
    assert list(plan_outputs(items, tmp_path, Options(shuffle=False))[0].items) == items


# Journal

DESCRIPTION = {"files": ["data.rec"], "--seed": 0}


def checkpoint_at(num_done, bad=()):
    return PackCheckpoint(num_done, [[[num_done, 0, 0, -1], 0]], list(bad), {}, "")


def interrupted(folder, checkpoints=(), description=DESCRIPTION):
    for name in ("data.rec.partial", "data.idx.partial"):
        (folder / name).touch()
    journal = Journal(folder / "journal")
    journal.start(description)
    for checkpoint in checkpoints:
        journal.add(checkpoint)
    journal.close()


def read_again(folder, description=DESCRIPTION):
    journal = Journal(folder / "journal")
    found = journal.checkpoint(description)
    journal.close()
    return found


def test_the_last_whole_checkpoint_counts(tmp_path):
    bad = [[3, "a.png", "why"], [7, "b.png", "why"]]
    interrupted(tmp_path, [checkpoint_at(5, bad[:1]), checkpoint_at(9, bad)])
    assert read_again(tmp_path) == checkpoint_at(9, bad)
    with (tmp_path / "journal").open("ab") as file:
        file.write(b"[11, [[[11")  # the power went off
    assert read_again(tmp_path) == checkpoint_at(9, bad)


@pytest.mark.parametrize("line", [b"nonsense\n", b"[1, 2]\n", b"{}\n[1]\n"])
def test_after_a_damaged_journal_a_pack_starts_from_the_beginning(tmp_path, line, caplog):
    interrupted(tmp_path)
    (tmp_path / "journal").write_bytes(line)
    assert read_again(tmp_path) is None
    assert "starting from the beginning" in caplog.text


def test_with_another_description_a_pack_starts_from_the_beginning(tmp_path, caplog):
    interrupted(tmp_path, [checkpoint_at(5)])
    assert read_again(tmp_path, {"files": ["data.rec"], "--seed": 1}) is None
    assert "changed since the interrupted run: --seed" in caplog.text
    assert sorted(os.listdir(tmp_path)) == ["journal"]


def test_without_a_partial_file_a_pack_starts_from_the_beginning(tmp_path, caplog):
    interrupted(tmp_path, [checkpoint_at(5)])
    (tmp_path / "data.idx.partial").unlink()
    assert read_again(tmp_path) is None
    assert "data.idx.partial is no longer whole" in caplog.text


def test_one_packer_at_a_time(tmp_path):
    journal = Journal(tmp_path / "out.journal")
    with pytest.raises(UsageError, match="another process packs into"):
        Journal(tmp_path / "out.journal")
    journal.close()
    Journal(tmp_path / "out.journal").close()


# Writing


def test_a_writer_goes_on_where_another_was_left(tmp_path):
    whole, left = tmp_path / "whole.rec", tmp_path / "left.rec"
    with RecordWriter(whole) as writer:
        for key in range(9):
            writer.write(key, key, bytes(key))
    writer = RecordWriter(left)
    for key in range(4):
        writer.write(key, key, bytes(key))
    writer.sync()
    written = writer.written
    writer.write(4, 0.0, b"after the last checkpoint")
    writer.leave()
    with RecordWriter(left, written) as writer:
        for key in range(4, 9):
            writer.write(key, key, bytes(key))
    assert left.read_bytes() == whole.read_bytes()
    assert index_path(left).read_bytes() == index_path(whole).read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def test_a_file_has_one_writer(tmp_path):
    with RecordWriter(tmp_path / "a.rec") as writer:
        with pytest.raises(UsageError, match="another process is writing"):
            RecordWriter(tmp_path / "a.rec")
        writer.write(0, 0.0, b"mine")
    assert open_records(tmp_path / "a.rec").read(0).payload == b"mine"


# Outcomes


def test_outcomes_come_in_order_and_few_are_under_way():
    furthest_ahead = 0

    def work(numbers):
        nonlocal furthest_ahead
        furthest_ahead = max(furthest_ahead, numbers[-1] - consumed)
        time.sleep(0.001 * (numbers[0] % 7))
        return [-number for number in numbers]

    consumed = 0
    for number in map_in_order(work, range(2001), 4):
        assert -number == consumed
        consumed += 1
    assert consumed == 2001
    assert 8 <= furthest_ahead <= 8 * (2 * 4 + 1)


# Tokens


def test_a_document_becomes_its_bytes_and_an_end():
    payload = tokens.prepare("Ωa".encode(), tokens.tokenizer("bytes", ())).payload
    assert np.frombuffer(payload, "<u2").tolist() == [*"Ωa".encode(), 256]


def letters(text):
    return [ord(letter) - ord("a") for letter in text]


def test_a_tokenizer_by_path_says_its_own_size(monkeypatch):
    by = tokens.tokenizer(f"{__name__}:letters", ())
    assert tokens.prepare(b"cab", by).payload == np.array([2, 0, 1], "<u4").tobytes()
    monkeypatch.setattr(letters, "vocab_size", 26, raising=False)
    monkeypatch.setattr(letters, "end_token", 25, raising=False)
    by = tokens.tokenizer(f"{__name__}:letters", ())
    assert tokens.prepare(b"cab", by).payload == np.array([2, 0, 1, 25], "<u2").tobytes()
    with pytest.raises(BadItem, match="from 0 to 25"):
        tokens.prepare(b"A", by)
    with pytest.raises(BadItem, match="not UTF-8"):
        tokens.prepare(b"\xff", by)
    with pytest.raises(UsageError, match=r"--tokenizer gpt2: unknown name \(bytes, bpe\)"):
        tokens.tokenizer("gpt2", ())
