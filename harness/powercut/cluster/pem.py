# SPDX-License-Identifier: Apache-2.0
"""TLS between scheduler, workers and dispatcher: whoever has no certificate is not let in.

A scheduler runs whatever a client gives it, so one that any user of a host may connect to gives
them the account that it runs under.  Those that powercut starts have a certificate that is made
for them, and is never a file.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Pem(BaseModel):
    """A certificate, its key, and the authority that others have to have theirs from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca: str
    certificate: str
    key: str

    def security(self) -> Any:
        """The same for Dask."""
        from distributed import Security  # noqa: PLC0415  takes most of a second

        options = {"tls_ca_file": self.ca}
        for role in ("client", "scheduler", "worker"):
            options |= {f"tls_{role}_cert": self.certificate, f"tls_{role}_key": self.key}
        make: Any = Security
        return make(require_encryption=True, **options)


def new_pem() -> Pem:
    """One that nobody else has."""
    from distributed import Security  # noqa: PLC0415

    make: Any = Security.temporary
    made = make()
    return Pem(ca=made.tls_ca_file, certificate=made.tls_client_cert, key=made.tls_client_key)
