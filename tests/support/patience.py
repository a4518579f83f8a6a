# SPDX-License-Identifier: Apache-2.0
"""How long a test waits for what should come at once.

Only something that hangs takes so long: a host at load 45 was seen to need a tenth of it.  A test
whose subject is a wait that runs out gives a time of its own.
"""

AMPLE_S = 300.0
