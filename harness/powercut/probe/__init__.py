# SPDX-License-Identifier: Apache-2.0
"""Is a sync here as slow as it must be?  Needs no guest, no root and no other part."""
