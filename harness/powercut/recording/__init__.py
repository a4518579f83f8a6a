# SPDX-License-Identifier: Apache-2.0
"""What is done with one recording: open it, import one, name its states, write one out.

Judges nothing, and knows neither trials nor campaigns.
"""
