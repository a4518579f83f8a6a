/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct command command;

    signal(SIGPIPE, SIG_IGN);
    if (getpid() == 1) {
        boot_mount();
        modules_boot();
        share_run();
        boot_wait_disks();
        port_find();
    } else if (argc == 3 && strcmp(argv[1], "--fd") == 0) {
        port_use(atoi(argv[2])); /* on the host, for tests: a socket instead of the port */
    } else {
        fprintf(stderr, "usage: as PID 1 of a guest, or: agent --fd N\n");
        return 2;
    }
    hello_send();
    for (;;) {
        switch (port_receive(&command)) {
        case PORT_COMMAND:
            command_execute(&command);
            break;
        case PORT_CONNECTED: /* each controller gets a HELLO, as the first one did */
            hello_send();
            break;
        case PORT_REFUSED:
        case PORT_PINGED:
            break;
        }
    }
}
