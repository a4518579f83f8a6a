# SPDX-License-Identifier: Apache-2.0
"""Recordings and results on disk: written before anything is judged, readable for ever."""
