/* SPDX-License-Identifier: Apache-2.0
 *
 * What CONFIGURE said, and holds for every RECOVER that follows.
 */
#include "init.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/mount_options.h"

struct plan plan;

char *take_list(char *text, char **list)
{
    int count = 0;

    while (*text != '\0' && count < ARGUMENTS_MAX) {
        list[count++] = text;
        text += strlen(text) + 1;
    }
    list[count] = NULL;
    return text + 1;
}

static char *take_string(char *text, char *into, size_t size)
{
    size_t length = strlen(text);

    memcpy(into, text, length < size ? length : size - 1); /* `into` was cleared */
    return text + length + 1;
}

int plan_parse(void)
{
    char *text = plan.text, options[sizeof plan.options] = "";

    if (page->length >= sizeof plan.text) {
        errno = E2BIG;
        return fail(PCU_STEP_CHECK, "the plan");
    }
    warm_reset();
    memset(&plan, 0, sizeof plan);
    memcpy(plan.text, area, page->length);
    text = take_string(text, plan.filesystem, sizeof plan.filesystem);
    text = take_string(text, options, sizeof options);
    plan.flags = mount_options_split(options, plan.options, sizeof plan.options);
    text = take_string(text, plan.mount_point, sizeof plan.mount_point);
    text = take_list(text, plan.reader);
    text = take_list(text, plan.after);
    plan.root = *text == '\0' ? NULL : text;
    plan.folder = text + strlen(text) + 1;
    text = take_list(plan.folder + strlen(plan.folder) + 1, plan.environment);
    text = take_list(text, plan.visible);
    plan.base = text;
    plan.program = plan.base + strlen(plan.base) + 1;
    plan.tools = plan.program + strlen(plan.program) + 1;
    plan.mac = plan.tools + strlen(plan.tools) + 1;
    plan.machine_id = plan.mac + strlen(plan.mac) + 1;
    text = plan.machine_id + strlen(plan.machine_id) + 1;
    plan.first_pid = atoi(text);
    text += strlen(text) + 1;
    plan.acks = strtoull(text, NULL, 10);
    text += strlen(text) + 1;
    plan.acks_ms = strtoull(text, NULL, 10);
    text = take_list(text + strlen(text) + 1, plan.disks);
    text = take_list(text, plan.layers);
    text = take_list(text, plan.examiner);
    take_list(text, plan.nodes);
    if (disks_configure(plan.disks) != 0 || layers_configure(plan.layers) != 0)
        return -1;
    if (plan.root != NULL && root_setup() != 0)
        return -1;
    if (plan.root == NULL && plan.mount_point[0] != '\0' &&
        mkdir(plan.mount_point, 0755) != 0 && errno != EEXIST)
        return fail(PCU_STEP_CHECK, "mkdir %s", plan.mount_point);
    return 0;
}
