/* SPDX-License-Identifier: Apache-2.0 */
#include "mount_options.h"

#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

unsigned long mount_options_split(const char *options, char *data, size_t size)
{
    static const struct {
        const char *word;
        unsigned long flag;
    } words[] = {
        {"ro", MS_RDONLY},           {"rw", 0},
        {"defaults", 0},             {"noatime", MS_NOATIME},
        {"nodiratime", MS_NODIRATIME}, {"relatime", MS_RELATIME},
        {"strictatime", MS_STRICTATIME}, {"lazytime", MS_LAZYTIME},
        {"sync", MS_SYNCHRONOUS},    {"dirsync", MS_DIRSYNC},
        {"nodev", MS_NODEV},         {"nosuid", MS_NOSUID},
        {"noexec", MS_NOEXEC},
    };
    unsigned long flags = 0;
    size_t used = 0, length, index;

    data[0] = '\0';
    for (; *options != '\0'; options += length + (options[length] == ',')) {
        length = strcspn(options, ",");
        for (index = 0; index < sizeof words / sizeof words[0]; index++)
            if (strlen(words[index].word) == length &&
                strncmp(words[index].word, options, length) == 0)
                break;
        if (index < sizeof words / sizeof words[0])
            flags |= words[index].flag;
        else if (length > 0 && used + length + 2 < size)
            used += (size_t)snprintf(data + used, size - used, "%s%.*s", used > 0 ? "," : "",
                                     (int)length, options);
    }
    return flags;
}
