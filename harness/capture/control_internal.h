/* SPDX-License-Identifier: Apache-2.0
 * Shared by control.c (the thread), commands.c (what clients may ask for) and clients.c. */
#ifndef POWERCUT_CAPTURE_CONTROL_INTERNAL_H
#define POWERCUT_CAPTURE_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "control.h"

enum {
    CLIENTS = 16,
    LINE = 8192, /* bytes of a command */
    OWNER = 0,   /* index of the client that owns the disk */
};

struct client {
    int fd; /* -1: free */
    size_t used;
    char line[LINE];
};

struct control {
    struct control_config config;
    struct disk *disk;
    pthread_t thread;
    bool running;
    int listener, wake;
    atomic_bool stopping;
    _Atomic uint64_t stopped_ns; /* when the disk stopped; 0: nothing to tell */
    int stopping_client;         /* index; -1: none */
    struct client clients[CLIENTS];
};

/* Closes the connection to a client. */
void control_drop(struct control *control, int index);

/* Sends a line to a client; one that does not take it is dropped. */
void control_send(struct control *control, int index, const char *line);

/* Does what a line of a client asks for, and answers it.  Changes the line. */
void control_command(struct control *control, int index, char *line);

#endif
