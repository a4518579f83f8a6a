# SPDX-License-Identifier: Apache-2.0
"""What this host can do, why not more, and what would mend it.

Not here: probes that a run itself needs; they are beside what they probe, and the doctor asks them.
"""
