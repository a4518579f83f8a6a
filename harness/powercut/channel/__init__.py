# SPDX-License-Identifier: Apache-2.0
"""How a guest tells the controller what it promised: wire format, and the port's backends."""
