"""The command that reproduces a run."""

import shlex

from aib.commands.options import parse
from aib.commands.train import Options
from aib.report.reproduce import training_command
from aib.settings import Settings


def test_the_training_command_parses_to_the_same_settings():
    settings = Settings(
        data="folder:my photos", augment=False, channels_last=True, milestones=(), ema=0.5, lr=0.25
    )
    words = shlex.split(training_command(settings))
    assert words[:2] == ["aib", "train"]
    assert parse(Options, words[2:], "aib train", default=Options()).settings == settings
