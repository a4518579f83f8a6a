# SPDX-License-Identifier: Apache-2.0
"""What a run should do: schema, YAML loading, matrix expansion, seeds.

Not here: doing it, and asking the host for anything.
"""
