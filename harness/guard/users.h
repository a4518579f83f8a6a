/* SPDX-License-Identifier: Apache-2.0
 *
 * Users of a sandbox that are no users of the host (users.c).
 */
#pragma once

#include <stddef.h>

/* The processes of this namespace, mounted nowhere; -1 and errno. */
int open_proc(void);

/* A namespace in which user N is USERS_FIRST + N on the host; -1 and errno if there is none. */
int users_make(void);

/* Shows what lies at `path`, with all that is mounted below, as the namespace's: what user N owns
 * on the host its user N owns there.  With `only_tried` nothing changes.  1 if what is mounted below
 * keeps the host's owners; -1 and errno. */
int users_own(int users, const char *path, int only_tried);

#define USERS_GIVEN_MAX 256

/* What lies at a path is given to a server, or only shown. */
struct given {
    const char *path;
    int shown;
    int whole; /* with all that is mounted below */
};

/* Such a tree, which is mounted nowhere; `alone` if what is mounted below keeps the host's owners.  -1
 * and errno. */
int users_tree(int users, const char *path, int read_only, int *alone);

/* A device that all may open, at its path in this mount namespace (serve.c); -1 and errno. */
int users_device(const char *path);

/* The view of a server on the host, in this mount namespace (serve.c); -1 and errno. */
int users_serve(int users, const struct given *given, size_t count);
