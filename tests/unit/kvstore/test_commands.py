"""Commands of a worker are executed as they were sent, or refused."""

from __future__ import annotations

import pytest

from mxtrain.kvstore import commands
from mxtrain.kvstore.commands import ApplyUpdates, Assign, Command, SetLearningRate


@pytest.mark.parametrize(
    "command", [SetLearningRate(1e-7), SetLearningRate(0), Assign(2), ApplyUpdates(0), ApplyUpdates(2**40)]
)
def test_a_command_is_parsed_as_it_was_sent(command: Command) -> None:
    text = commands.text(command)
    assert text.startswith("{"), "by this a server tells it from an optimizer's pickle"
    assert "\0" not in text and commands.parse(text.encode()) == command


@pytest.mark.parametrize(
    "body",
    [
        *('{"set_learning_rate": {"learning_rate": NaN}}', '{"set_learning_rate": {"learning_rate": 1e999}}'),
        *('{"set_learning_rate": {"learning_rate": -1}}', '{"set_learning_rate": {"learning_rate": true}}'),
        *(
            '{"set_learning_rate": {"learning_rate": "1"}}',
            '{"set_learning_rate": {}}',
            '{"set_learning_rate": {"rate": 1}}',
        ),
        *(
            '{"set_learning_rate": 1}',
            '{"set_learning_rate": {"learning_rate": 1}, "apply_updates": {"num_updates": 1}}',
        ),
        *(
            '{"assign": {"stride": 0}}',
            '{"assign": {"stride": 2.5}}',
            '{"apply_updates": {"num_updates": -1}}',
        ),
        *(
            "{}",
            "{",
            '{"__class__": {}}',
            '{"save": {"path": "/etc/passwd"}}',
            "{" * 100_000,
            '{"a":' * 100_000,
        ),
    ],
    ids=lambda body: body[:40],
)
def test_anything_else_is_refused_in_one_line(body: str) -> None:
    with pytest.raises(ValueError, match=r"^no command: ") as refusal:
        commands.parse(body.encode())
    assert len(str(refusal.value)) < 300
