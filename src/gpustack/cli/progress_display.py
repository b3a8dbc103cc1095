"""The lines of a terminal that are overwritten: each file in transfer, all of them, a line of a command's output."""

from __future__ import annotations

from typing import IO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress, ProgressColumn, Task, TaskID
from rich.table import Column
from rich.text import Text

from gpustack.cli import frame
from gpustack.visible import visible

_OF_LATE = 10.0
"""Seconds over which the rate is averaged."""


class _Standing(Console):
    """A console that never hides the cursor: a program that is killed leaves a usable terminal."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002 (rich's signature)
        """Leave the cursor as it is."""
        return False


class _ToTerminal:
    """Standard error, whose failures end no command."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        frame.draw(text)
        return len(text)

    def flush(self) -> None:
        """What is written is flushed already."""

    def isatty(self) -> bool:
        return True


class _Transferred(ProgressColumn):
    """How much of a file is there; for the last line also the rate, and the time that is left."""

    max_refresh = None

    def render(self, task: Task) -> Text:
        pace = ""
        if task.fields["paced"] and task.speed:
            left = f", {_clock(task.time_remaining)} left" if task.time_remaining is not None else ""
            pace = f", {frame.mebibytes(task.speed)}/s{left}"
        return Text(frame.transferred(task.description, task.completed, task.total) + pace)


class Display:
    """What is overwritten on standard error; nobody draws but who calls."""

    def __init__(self) -> None:
        console = _Standing(file=cast("IO[str]", _ToTerminal()), force_terminal=True, no_color=True, highlight=False)
        column = _Transferred(table_column=Column(no_wrap=True, overflow="crop"))
        self._console = console
        self._live: Live | None = None
        self._lines = Progress(column, console=console, auto_refresh=False, speed_estimate_period=_OF_LATE)
        self._files: list[TaskID] = []
        self._all = self._lines.add_task("", total=0, visible=False, paced=True)
        self._passing = ""

    def transfer(self, name: str, size: int | None) -> TaskID:
        """A file that will be transferred."""
        task = self._lines.add_task(visible(name), total=size, visible=False, paced=False)
        self._files.append(task)
        return task

    def count(self, file: TaskID, there: int, size: int | None, *, came: bool) -> None:
        """So much of a file is there now; what had not ``came``, an earlier attempt left or the cache had."""
        self._count(file, there, size, came=came)
        tasks = [one for one in self._lines.tasks if one.id in self._files]
        sizes = [one.total for one in tasks]
        total = None if None in sizes else sum(one or 0 for one in sizes)
        self._count(
            self._all, sum(int(one.completed) for one in tasks), None if total is None else int(total), came=came
        )
        running = [one for one in tasks if one.completed and not one.finished]
        for one in tasks:
            self._lines.update(one.id, visible=one in running, paced=len(tasks) == 1)
        self._lines.update(self._all, description=f"all {len(tasks)} files:", visible=bool(running) and len(tasks) > 1)

    def _count(self, file: TaskID, there: int, size: int | None, *, came: bool) -> None:
        task = next(one for one in self._lines.tasks if one.id == file)
        if not came:
            task.completed = there  # rich takes what an update adds for what has come
        task.total = size if size is not None else task.total
        self._lines.update(file, completed=there)

    def is_running(self) -> bool:
        """Whether a file is in transfer."""
        return any(task.visible for task in self._lines.tasks)

    def passing(self, text: str) -> None:
        """The line that the next one overwrites, "" for none."""
        self._passing = text

    def draw(self) -> None:
        """Show how it stands."""
        if self._live is None:
            self._live = Live(
                get_renderable=self._shown, console=self._console, auto_refresh=False, transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._live.start()
        self._live.refresh()

    def clear(self) -> None:
        """Take the lines off the terminal."""
        if self._live is not None:
            self._live.stop()
        self._live = None

    def _shown(self) -> Group:
        """The files, all of them, and below them the last line of a command's output."""
        shown = sorted((task for task in self._lines.tasks if task.visible), key=lambda task: task.id == self._all)
        passing = [Text(self._passing, no_wrap=True, overflow="crop")] if self._passing else []
        return Group(*([self._lines.make_tasks_table(shown)] if shown else []), *passing)


def _clock(seconds: float) -> str:
    """A time in hours, minutes and seconds, as short as possible: 1:02:03, 2:03, 0:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
