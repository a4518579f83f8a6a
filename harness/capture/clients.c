/* SPDX-License-Identifier: Apache-2.0
 *
 * What is sent to the clients of the control channel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control_internal.h"

void control_drop(struct control *control, int index)
{
    struct client *client = &control->clients[index];
    close(client->fd);
    client->fd = -1;
    client->used = 0;
    if (control->stopping_client == index)
        control->stopping_client = -1;
}

void control_send(struct control *control, int index, const char *line)
{
    struct client *client = &control->clients[index];
    size_t left = strlen(line);
    while (left && client->fd >= 0) {
        ssize_t sent = send(client->fd, line, left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0) {
            if (index == OWNER) /* the poll sees the end of it and shuts down */
                shutdown(client->fd, SHUT_RDWR);
            else
                control_drop(control, index);
            return;
        }
        line += sent;
        left -= (size_t)sent;
    }
}
