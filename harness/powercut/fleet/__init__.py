# SPDX-License-Identifier: Apache-2.0
"""Trials on many hosts: which hosts there are, powercut on each, what they do and what is believed.

A host makes recordings and judges them; here its word is checked.  How a single machine of
another owner is cut is a matter of `machine/foreign`.
"""
