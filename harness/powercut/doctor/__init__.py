# SPDX-License-Identifier: Apache-2.0
"""What this host can do, why not more, and what would mend it."""
