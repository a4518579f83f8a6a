/* SPDX-License-Identifier: Apache-2.0
 *
 * A program on a folder that the host shares with the guest (virtiofs, 9p).
 *
 * Its root is the host's own, shared and read-only; the folder lies in there at its usual place, a
 * share of its own.  There is no controller: what is to be done is in the file /share of the
 * initramfs, as strings that end with NUL:
 *
 *   TYPE ROOT-OPTIONS FOLDER-OPTIONS FOLDER CURRENT MAC MACHINE-ID COUNT NAME=VALUE... PATH ARG...
 *
 * The program has the virtio-serial port `output` as stdout and stderr, and the virtio console as fd 3:
 * a write to that returns when the host has taken all of it (put_chars in the kernel's
 * drivers/char/virtio_console.c), so a line is out before the program goes on.  A port does not wait.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define SHARE_FILE "/share"
#define SHARE_SIZE 65536
#define WORDS_MAX 512
#define LINES_FD 3
#define PORT_TIMEOUT_MS 10000

/* The words of the file, and how many; 0 if there is none. */
static size_t share_words(char *text, char **words)
{
    int fd = open(SHARE_FILE, O_RDONLY | O_CLOEXEC);
    size_t used = 0, count = 0;
    ssize_t got = 0;

    if (fd < 0)
        return 0;
    while (used < SHARE_SIZE && (got = read(fd, text + used, SHARE_SIZE - used)) > 0)
        used += (size_t)got;
    close(fd);
    if (got < 0 || !used || text[used - 1])
        die("%s: not whole, or longer than %d bytes", SHARE_FILE, SHARE_SIZE);
    for (size_t at = 0; at < used && count < WORDS_MAX; at += strlen(text + at) + 1)
        words[count++] = text + at;
    words[count] = NULL;
    return count;
}

/* Opens with `try` what appears after virtio_console's probe. */
static int share_open(int (*try)(const char *), const char *name)
{
    uint64_t deadline = pc_now_ns() + PORT_TIMEOUT_MS * 1000000ull;
    int fd;

    while ((fd = try(name)) < 0) {
        if (pc_now_ns() >= deadline)
            die("%s: %s", last_failure.call, strerror(last_failure.error));
        sleep_ms(2);
    }
    return fcntl(fd, F_DUPFD_CLOEXEC, 10); /* above what the child has: see share_become */
}

static int share_console(const char *name)
{
    struct termios raw;
    int fd = open(name, O_RDWR | O_CLOEXEC | O_NOCTTY);

    if (fd >= 0 && tcgetattr(fd, &raw) == 0) {
        cfmakeraw(&raw);
        if (tcsetattr(fd, TCSANOW, &raw) == 0)
            return fd;
    }
    failed(errno, "open %s", name);
    if (fd >= 0)
        close(fd);
    return -1;
}

static void share_mount(const char *tag, const char *folder, const char *type, unsigned long flags,
                        const char *options)
{
    char path[512];

    snprintf(path, sizeof path, AGENT_ROOT "%s", folder);
    if (!make_directories(path))
        die("%s: %s", last_failure.call, strerror(last_failure.error));
    if (mount(tag, path, type, flags, options))
        die("mount the share %s on %s as %s with '%s': %s", tag, path, type, options, strerror(errno));
}

/* Neither port is among 0 to 3: dup2 of a descriptor to itself would leave it close-on-exec. */
static _Noreturn void share_become(char *const argv[], char *const environment[], const char *current,
                                   int lines, int output)
{
    int null = open("/dev/null", O_RDONLY);

    if (null >= 0 && dup2(null, 0) == 0 && dup2(output, 1) == 1 && dup2(output, 2) == 2 &&
        dup2(lines, LINES_FD) == LINES_FD && chroot(AGENT_ROOT) == 0 && chdir(current) == 0) {
        if (null > LINES_FD)
            close(null);
        execve(argv[0], argv, environment);
    }
    dprintf(2, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void share_run(void)
{
    static char text[SHARE_SIZE], *words[WORDS_MAX + 1];
    size_t count = share_words(text, words), variables;
    char list[300], *environment[WORDS_MAX + 1] = {NULL};
    int status = 0;

    if (!count)
        return;
    if (count < 9 || (variables = strtoul(words[7], NULL, 10)) > count - 9)
        die("%s: %zu words are too few", SHARE_FILE, count);
    snprintf(list, sizeof list, "/modules/order.%s", words[0]);
    if (access(list, F_OK) == 0 && !modules_load(list))
        die("%s: %s", last_failure.call, strerror(last_failure.error));
    share_mount("root", "", words[0], MS_RDONLY, words[1]);
    if (!root_furnish() || !root_machine(words[5], words[6], "0"))
        die("%s: %s", last_failure.call, strerror(last_failure.error));
    share_mount("folder", words[3], words[0], 0, words[2]);
    memcpy(environment, words + 8, variables * sizeof *environment);
    int lines = share_open(share_console, "/dev/hvc0");
    int output = share_open(port_named, "output");
    pid_t child = fork();
    if (child == 0)
        share_become(words + 8 + variables, environment, words[4], lines, output);
    for (pid_t gone = 0; child > 0 && gone != child;)
        gone = waitpid(-1, &status, 0); /* PID 1 also buries orphans */
    if (child < 0 || status)
        dprintf(output, "powercut agent: the program ended with status %d\n",
                WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    power_off();
}
