# SPDX-License-Identifier: Apache-2.0
"""Recovery in one User-Mode Linux, state after state."""
