# SPDX-License-Identifier: Apache-2.0
"""What powercut can do beyond its core.

Each package here is an extra: pyproject.toml registers it by entry points, the core finds it there
and imports nothing of it, and extras import the core but never each other.  docs/adding-an-extra.md
walks through one, `probe`.
"""
