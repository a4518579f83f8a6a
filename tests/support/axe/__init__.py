# SPDX-License-Identifier: Apache-2.0
"""axe-core as its package brings it, and what it finds in a page."""
