# SPDX-License-Identifier: Apache-2.0
"""What a person reads in a browser or on paper: one HTML file, no network, no script."""
