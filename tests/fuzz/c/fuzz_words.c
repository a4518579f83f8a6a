/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: words of settings, which come from scenarios and recordings: arguments of the
 * workload, and options of mount(8).  The first byte says which.
 */
#include <stdlib.h>
#include <string.h>

#include "../../../guests/common/mount_options.h"
#include "../../../workloads/wal/config.h"

enum { WORDS = 80 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void arguments(char *text, size_t size, bool write)
{
    char *argv[WORDS + 1];
    size_t count = 0;
    struct wal_config config;
    struct pc_problems problems = {0};

    for (size_t at = 0; at < size && count < WORDS; at += strlen(text + at) + 1)
        argv[count++] = text + at;
    argv[count] = NULL;
    wal_config_parse(&config, write, argv, &problems);
    if (problems.count)
        return;
    struct wal_layout layout = wal_config_layout(&config, 1 << 20);

    wal_config_check_layout(&config, &layout, 512, &problems);
}

static void options(const char *text, size_t size)
{
    char *data = malloc(size + 1);
    char small[16];

    if (!data)
        abort();
    mount_options_split(text, data, size + 1);
    mount_options_split(text, small, sizeof small);
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size < 1 || !(text = malloc(size)))
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] % 3 == 2)
        options(text, size);
    else
        arguments(text, size, data[0] % 3);
    free(text);
    return 0;
}
