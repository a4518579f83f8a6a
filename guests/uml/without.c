/* SPDX-License-Identifier: Apache-2.0
 *
 * unsynced PROGRAM [ARGUMENT]...: runs a program without its syncs (../common/unsynced.c), on whatever Linux
 * it is started.
 */
#include "../common/unsynced.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: unsynced PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    if (unsynced_begin() != 0) {
        perror("unsynced: the kernel takes no filter");
        return 126;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
