# SPDX-License-Identifier: Apache-2.0
"""powercut: was the write durable when your software was told so?

The names in `__all__` are the API (docs/api.md).  Each is loaded when it is first used, and its
types are in __init__.pyi: `import powercut` costs no more than the version.
"""

__version__ = "0.3.2"

__all__ = [
    "Contract", "Finding", "PowercutError", "Program", "Recording", "Verdict", "crash_states",
    "load", "open", "record", "run", "try_program",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module("powercut.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
