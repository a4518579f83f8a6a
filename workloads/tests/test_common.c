/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC32C, latency buckets, arguments, messages.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../common/crc32c.h"
#include "../common/keyval.h"
#include "../common/latency.h"
#include "../common/wire_out.h"
#include "check.h"

/* RFC 3720, appendix B.4, and the usual check value. */
static void test_crc32c(void)
{
    uint8_t data[64];
    uint64_t state = 1;

    CHECK_EQUAL(pc_crc32c(0, "123456789", 9), 0xe3069283u);
    memset(data, 0, 32);
    CHECK_EQUAL(pc_crc32c(0, data, 32), 0x8a9136aau);
    memset(data, 0xff, 32);
    CHECK_EQUAL(pc_crc32c(0, data, 32), 0x62a8ab43u);
    for (uint8_t i = 0; i < 32; i++)
        data[i] = i;
    CHECK_EQUAL(pc_crc32c(0, data, 32), 0x46dd794eu);
    CHECK_EQUAL(pc_crc32c_table(0, data, 32), 0x46dd794eu);
    for (unsigned i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)check_random(&state);
    /* every alignment and length, in one piece and in two, with and without the instruction */
    for (unsigned start = 0; start < 8; start++) {
        for (unsigned length = 0; start + length <= sizeof(data); length++) {
            uint32_t whole = pc_crc32c_table(0, data + start, length);
            unsigned half = length / 2;

            CHECK_EQUAL(pc_crc32c(0, data + start, length), whole);
            CHECK_EQUAL(pc_crc32c(pc_crc32c(0, data + start, half), data + start + half,
                                  length - half), whole);
        }
    }
}

static void test_latency(void)
{
    struct pc_latency latency = {0};

    CHECK_EQUAL(pc_latency_bucket(0), 0);
    CHECK_EQUAL(pc_latency_bucket(7), 7);
    CHECK_EQUAL(pc_latency_bucket(8), 8);
    CHECK_EQUAL(pc_latency_bucket(15), 15);
    CHECK_EQUAL(pc_latency_bucket(16), 16);
    CHECK_EQUAL(pc_latency_bucket(17), 16);
    CHECK_EQUAL(pc_latency_bucket(18), 17);
    CHECK_EQUAL(pc_latency_bucket(UINT64_MAX), PC_LATENCY_BUCKETS - 1);
    pc_latency_add(&latency, 100);
    pc_latency_add(&latency, 50);
    CHECK_EQUAL(latency.count, 2);
    CHECK_EQUAL(latency.sum_ns, 150);
    CHECK_EQUAL(latency.max_ns, 100);
}

static void test_keyval(void)
{
    static const char *const colours[] = {"red", "green", NULL};
    struct pc_problems problems = {0};
    const char *text = NULL;
    uint64_t number = 0;
    int colour = -1;
    uint8_t id[16];
    bool given = false;
    const struct pc_key keys[] = {
        {"text", PC_VALUE_TEXT, &text, 0, 0, NULL, &given, NULL},
        {"number", PC_VALUE_NUMBER, &number, 2, 10, NULL, NULL, NULL},
        {"colour", PC_VALUE_CHOICE, &colour, 0, 0, colours, NULL, NULL},
        {"id", PC_VALUE_HEX16, id, 0, 0, NULL, NULL, NULL},
        {"old", PC_VALUE_TEXT, &text, 0, 0, NULL, NULL, "no longer"},
        {0},
    };
    char *good[] = {"text=a=b", "number=10", "colour=green",
                    "id=00112233445566778899aAbBcCdDeEfF", NULL};
    char *bad[] = {"text=", "number=11", "number=-3", "number", "colour=blue", "id=12", "old=1",
                   "=x", "numbers=3", "text=b", NULL};

    pc_keyval_parse(good, keys, &problems);
    CHECK(problems.count == 0, "%s", problems.text);
    CHECK(given && strcmp(text, "a=b") == 0, "text is %s", text);
    CHECK_EQUAL(number, 10);
    CHECK_EQUAL(colour, 1);
    CHECK_EQUAL(id[15], 0xff);
    CHECK_EQUAL(id[1], 0x11);
    pc_keyval_parse(bad, keys, &problems);
    CHECK(problems.count == 10, "%u: %s", problems.count, problems.text);
    for (int i = 0; i < 1000; i++) /* the text is bounded, the count goes on */
        pc_problem(&problems, "%s", "one more reason, in a few words");
    CHECK_EQUAL(problems.count, 1010);
    CHECK(strlen(problems.text) == problems.used && problems.used < sizeof(problems.text),
          "%zu of %zu", strlen(problems.text), problems.used);
}

static void test_wire(void)
{
    static struct pc_outbox outbox;
    static uint8_t buffer[4096];
    int ends[2];
    struct pc_message first, second;

    CHECK_EQUAL(pipe(ends), 0);
    pc_outbox_init(&outbox, ends[1]);
    CHECK_EQUAL(pc_outbox_add(&outbox, (struct pc_message){.type = PC_ACK, .lsn = 7}, NULL, 0), 0);
    CHECK_EQUAL(pc_outbox_fact(&outbox, "key=%d", 42), 0);
    CHECK_EQUAL(pc_outbox_flush(&outbox), 0);
    /* both arrive with one read: they left with one write */
    CHECK_EQUAL(read(ends[0], buffer, sizeof(buffer)), 2 * 40 + 6);
    memcpy(&first, buffer, 40);
    memcpy(&second, buffer + 40, 40);
    CHECK(pc_wire_valid(&first, NULL), "the crc is %08x", first.crc);
    CHECK(pc_wire_valid(&second, buffer + 80), "the crc is %08x", second.crc);
    CHECK(memcmp(buffer + 80, "key=42", 6) == 0, "payload");
    buffer[82] ^= 1;
    CHECK(!pc_wire_valid(&second, buffer + 80), "a damaged payload passes");
    first.lsn++;
    CHECK(!pc_wire_valid(&first, NULL), "a damaged header passes");
    CHECK_EQUAL(-pc_outbox_add(&outbox, first, buffer, PC_WIRE_PAYLOAD_MAX + 1), EMSGSIZE);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    test_crc32c();
    test_latency();
    test_keyval();
    test_wire();
    return check_status("common");
}
