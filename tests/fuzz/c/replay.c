/* SPDX-License-Identifier: Apache-2.0
 *
 * replay FILE...: gives a fuzz target what was found once; the sanitizers end it at a fault.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    static uint8_t data[1 << 20];

    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");

        if (!file) {
            perror(argv[i]);
            return 1;
        }
        size_t size = fread(data, 1, sizeof data, file);
        uint8_t *copy = malloc(size ? size : 1); /* so that its end is known */

        if (!copy)
            return 1;
        for (size_t at = 0; at < size; at++)
            copy[at] = data[at];
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
        fclose(file);
    }
    return 0;
}
