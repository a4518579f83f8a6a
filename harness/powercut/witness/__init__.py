# SPDX-License-Identifier: Apache-2.0
"""From a loss to its cause: the smallest crash state that shows it, confirmed and explained.

It takes states that others found; finding them is `explore`.
"""
