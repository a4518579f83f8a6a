# SPDX-License-Identifier: Apache-2.0
# What the program, its unit tests and the fuzz target are made of, but for main().
WAL_SOURCES = ack.c alternate.c chunk.c classify.c commit.c config.c engine_io_uring.c \
	engine_libaio.c engine_pwrite.c engines.c failure.c layout.c log.c plant.c pong.c reader.c \
	record.c tear.c writer.c writer_state.c crc32c.c keyval.c wire.c dmlog.c
