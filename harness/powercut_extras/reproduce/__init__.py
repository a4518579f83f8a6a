# SPDX-License-Identifier: Apache-2.0
"""A loss as a program for the maintainers of what has lost it: written, run, and only then shown.

Not here: what a loss is, and which calls it hangs on; `powercut minimize` finds those.
"""
