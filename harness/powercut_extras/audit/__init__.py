# SPDX-License-Identifier: Apache-2.0
"""What each ack, flush and sync of a recording was worth, and who asked for it: `powercut audit`.

Not here: what commits cost (`audit cost` measures that without a cut), and the tracer that sees a
program's syncs, which is the core's.
"""
