# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet: those that are as this one is take part, the others are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from powercut.closing import Closing
from powercut.fleet.facts import RemoteOf, remote_of
from powercut.fleet.hosts_file import HostSettings
from powercut.fleet.identity import differences
from powercut.fleet.link import HostLink
from powercut.fleet.messages import Hello, Opening, Study
from powercut.model.errors import HostError, PowercutError
from powercut.model.events import Notice, RunEvent
from powercut.store.fleet import HostAccount, State

SILENCE_S: Final = 120.0
"""A host of which nothing was heard for so long is lost; its beats come ten times as often."""

_AT_ONCE: Final = 32


class FleetHost:
    """One host, and what became of it in the run that is made."""

    def __init__(self, settings: HostSettings, number: int, link: HostLink) -> None:
        self.settings = settings
        self.number = number
        self.link = link
        self.state: State = "lost"
        self.reason = "it was not asked"
        self.processor = ""
        self.seconds = 0.0
        self.repeated = 0
        self.failures = 0
        self.at_work: set[str] = set()

    @property
    def name(self) -> str:
        """As the hosts file calls it."""
        return self.settings.name

    @property
    def present(self) -> bool:
        """Whether it takes part."""
        return self.state == "took-part"

    def account(self, trials: int) -> HostAccount:
        """What became of it; `trials` of its trials count."""
        return HostAccount(
            name=self.name,
            state=self.state,
            reason="" if self.present else self.reason,
            processor=self.processor,
            trials=trials,
            repeated=self.repeated,
            seconds=round(self.seconds, 3),
        )


class Fleet(Closing):
    """Hosts with the powercut of this host; a connection to each is open during a run."""

    def __init__(
        self,
        hosts: Sequence[HostSettings],
        version: str,
        *,
        remote_of: RemoteOf = remote_of,
        silence_s: float = SILENCE_S,
    ) -> None:
        """`version` is what was made ready there (powercut.fleet.wheels)."""
        self.silence_s = silence_s
        self._settings = tuple(hosts)
        self._version = version
        self._remote_of = remote_of
        self.hosts: tuple[FleetHost, ...] = ()

    @property
    def present(self) -> list[FleetHost]:
        """Those that take part."""
        return [host for host in self.hosts if host.present]

    def open(
        self,
        here: Hello,
        opening: Callable[[FleetHost], Opening | Study],
        on_event: Callable[[RunEvent], None],
    ) -> None:
        """Starts a worker on each host; those that are not as this one is take no part.

        `opening` is asked once a host is connected, and may bring there what is needed.
        Raises HostError if none can.
        """
        self.close()
        self.hosts = tuple(
            FleetHost(
                settings,
                number,
                HostLink(
                    settings, self._remote_of(settings), self._version, silence_s=self.silence_s
                ),
            )
            for number, settings in enumerate(self._settings, 1)
        )

        def begin(host: FleetHost) -> None:
            try:
                host.link.connect()
                hello = host.link.open(opening(host))
            except PowercutError as error:
                host.state, host.reason = "lost", str(error).removeprefix(f"{host.name}: ")
                return
            host.processor = hello.processor[:200]
            differing = list(differences(here, hello))
            if differing:
                host.state, host.reason = "refused", "; ".join(differing)
                host.link.close()
            else:
                host.state, host.reason = "took-part", ""

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(begin, self.hosts))
        for host in self.hosts:
            if not host.present:
                on_event(Notice(f"{host.name} takes no part: {host.reason}."))
        if not self.present:
            raise HostError(
                "no host of the fleet can take part: "
                + "; ".join(f"{host.name}: {host.reason}" for host in self.hosts),
                hint="powercut doctor hosts check says what each host is",
            )

    def close(self) -> None:
        """Every worker ends."""
        for host in self.hosts:
            host.link.close()
