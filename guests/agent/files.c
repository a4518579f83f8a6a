/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Reads a small file (sysfs, procfs) without its last newline.  What does not fit is left. */
bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 0;

    if (fd < 0)
        return failed(errno, "open %s", path);
    while (used < size - 1 && (got = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    int error = errno;
    close(fd);
    if (got < 0)
        return failed(error, "read %s", path);
    text[used] = '\0';
    if (used && text[used - 1] == '\n')
        text[used - 1] = '\0';
    return true;
}

/* Writes to a file that exists (sysfs takes a value in one write, or refuses it). */
bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return failed(errno, "open %s", path);
    ssize_t put = write(fd, text, strlen(text));
    int error = put < 0 ? errno : EIO;
    close(fd);
    if (put != (ssize_t)strlen(text))
        return failed(error, "write '%s' to %s", text, path);
    return true;
}

/* mkdir -p */
bool make_directories(const char *path)
{
    char part[512];
    size_t length = strlen(path);

    if (!length || length >= sizeof part)
        return failed(ENAMETOOLONG, "mkdir %s", path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0755) && errno != EEXIST)
            return failed(errno, "mkdir %s", part);
    }
    return true;
}

/* The value of KEY=VALUE on the kernel's command line. */
bool kernel_argument(const char *key, char *value, size_t size)
{
    char text[4096], *rest = text, *word;
    size_t length = strlen(key);

    if (!read_text("/proc/cmdline", text, sizeof text))
        return false;
    while ((word = strsep(&rest, " \n"))) {
        if (strncmp(word, key, length) == 0 && word[length] == '=') {
            snprintf(value, size, "%s", word + length + 1);
            return true;
        }
    }
    return failed(ENOENT, "%s on the kernel's command line", key);
}

void sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}
