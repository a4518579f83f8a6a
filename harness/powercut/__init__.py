# SPDX-License-Identifier: Apache-2.0
"""powercut: was the write durable when your software was told so?"""

__version__ = "0.3.2"
