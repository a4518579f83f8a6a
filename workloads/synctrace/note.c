/* SPDX-License-Identifier: Apache-2.0 */
#include "synctrace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LINE_BYTES 4096 /* a program's line has no more */

static int channel = -1;
static unsigned long long key;
static struct site *sites;
static int site_count;

int note_begin(const char *log)
{
    const char *descriptor = getenv("POWERCUT_FD");

    if (log != NULL)
        channel = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    else if (descriptor != NULL)
        channel = fcntl(atoi(descriptor), F_DUPFD_CLOEXEC, 10);
    else
        errno = EBADF;
    if (channel < 0 || getrandom(&key, sizeof key, 0) != sizeof key)
        return -1;
    note("trace 1");
    return 0;
}

void note(const char *format, ...)
{
    char line[LINE_BYTES + 1];
    va_list arguments;
    size_t length, done = 0;
    ssize_t wrote;

    length = (size_t)snprintf(line, sizeof line, "~ %016llx ", key);
    va_start(arguments, format);
    length += (size_t)vsnprintf(line + length, sizeof line - length, format, arguments);
    va_end(arguments);
    if (length > LINE_BYTES - 1)
        length = LINE_BYTES - 1;
    line[length++] = '\n';
    while (done < length) {
        wrote = write(channel, line + done, length - done);
        if (wrote < 0 && errno != EINTR) {
            perror("synctrace: write a note");
            exit(125);
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* FNV-1a, 64 bits. */
static uint64_t mix(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return (hash ^ 0xff) * 0x100000001b3u;
}

static void put_frame(char *into, size_t size, const struct place *frame, uint64_t address)
{
    char text[32];

    if (frame->module == NULL) { /* made at run time: its address says nothing */
        text_escaped(into, size, "[memory]");
        return;
    }
    text_escaped(into, size, frame->module->path);
    snprintf(text, sizeof text, "+0x%llx", (unsigned long long)address);
    text_escaped(into, size, text);
}

const struct site *note_site(const struct call *call, const struct place *frames, int count)
{
    char text[LINE_BYTES - 256 - PATH_TEXT] = "", frame[sizeof text];
    uint64_t stack = mix(0xcbf29ce484222325u, call->name);
    struct site *grown;
    int index;

    for (index = 0; index < count; index++) {
        frame[0] = '\0';
        put_frame(frame, sizeof frame, &frames[index],
                  index == 0 ? frames[0].function : frames[index].address);
        stack = mix(stack, frame);
        if (strlen(text) + strlen(frame) + 2 <= sizeof text)
            strcat(strcat(text, " "), frame);
    }
    for (index = 0; index < site_count; index++)
        if (sites[index].stack == stack && strcmp(sites[index].path, call->path) == 0)
            return &sites[index];
    grown = reallocarray(sites, (size_t)site_count + 1, sizeof *sites);
    if (grown == NULL)
        abort();
    sites = grown;
    sites[site_count] = (struct site){.number = site_count, .stack = stack};
    memcpy(sites[site_count].path, call->path, sizeof call->path);
    note("site %d %016llx %s %s%s", site_count, (unsigned long long)stack, call->name, call->path,
         text);
    return &sites[site_count++];
}
