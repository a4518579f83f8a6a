# SPDX-License-Identifier: Apache-2.0
"""Starts the host's tools on what strangers made: without devices, network and other files.

Knows nothing of images and their tools; whoever starts one says which files it needs.
"""
