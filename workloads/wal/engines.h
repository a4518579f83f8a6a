/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_WAL_ENGINES_H
#define POWERCUT_WAL_ENGINES_H

#include "config.h"
#include "engine.h"

/* Opens an engine by its kind.  -1: see `failure`. */
int wal_engine_open(struct wal_engine *engine, enum wal_engine_kind kind, unsigned depth,
                    struct wal_failure *failure);

#endif
