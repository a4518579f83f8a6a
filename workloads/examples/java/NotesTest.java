// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.junit.jupiter.api.Test;

/** A program in a test class: JUnit cuts its power. */
class NotesTest {
    static class Notes implements PowerCut.Program {
        @Override
        public void setup(Path folder) throws IOException {
            Files.createFile(folder.resolve("notes"));
            sync(folder);
        }

        @Override
        public void run(Path folder, PowerCut.Session session) throws IOException {
            try (FileChannel notes = FileChannel.open(folder.resolve("notes"), StandardOpenOption.APPEND)) {
                session.ready();
                for (long id = 1; id < 100_000; id++) {
                    session.trying(id);
                    notes.write(ByteBuffer.wrap((id + "\n").getBytes(StandardCharsets.US_ASCII)));
                    notes.force(false); // without this every acknowledged note can be lost
                    session.durable(id);
                }
            }
        }

        @Override
        public void check(Path folder, PowerCut.Session session) throws IOException {
            String text = Files.readString(folder.resolve("notes"), StandardCharsets.ISO_8859_1);
            String whole = text.substring(0, text.lastIndexOf('\n') + 1); // the rest is half a line
            whole.lines().filter(line -> line.matches("[0-9]+")).mapToLong(Long::parseLong)
                    .forEach(session::present);
        }

        private static void sync(Path folder) throws IOException {
            try (FileChannel names = FileChannel.open(folder, StandardOpenOption.READ)) {
                names.force(true);
            }
        }
    }

    @Test
    void notesSurviveAPowerCut() throws Exception {
        PowerCut.cut(Notes.class, "--acks=40", "--budget=32");
    }
}
