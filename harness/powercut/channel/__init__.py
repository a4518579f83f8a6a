# SPDX-License-Identifier: Apache-2.0
"""How a guest tells the controller what it promised: wire format, and the port's backends.

Not here: what a promise means (`workload`, `checkers`), and how a guest is started (`machine`).
"""
