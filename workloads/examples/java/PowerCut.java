// SPDX-License-Identifier: Apache-2.0

import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Makes a test of JUnit, or of any other framework, a program whose power is cut: copy this file
 * beside your tests. The lines that it speaks are those of docs/adding-a-program.md.
 */
public final class PowerCut {
    /** The three verbs. Each runs in a process of its own, with a new object. */
    public interface Program {
        /** Prepares the store in folder, which is there and empty. */
        default void setup(Path folder) throws Exception {}

        /** Works until it is killed. Returning early is allowed; an exception ends in INCONCLUSIVE. */
        void run(Path folder, Session session) throws Exception;

        /** Recovers the store and says what is there. An exception: it has not looked at everything. */
        void check(Path folder, Session session) throws Exception;
    }

    /** Says what the program does; each call is one write. */
    public static final class Session {
        private final FileOutputStream lines;

        private Session(FileOutputStream lines) {
            this.lines = lines;
        }

        private void say(String line) {
            try {
                lines.write((line.replace('\n', ' ') + "\n").getBytes(StandardCharsets.UTF_8));
            } catch (IOException error) {
                System.err.println("powercut does not listen: " + error);
                Runtime.getRuntime().halt(1);
            }
        }

        /** Before all others: an operation that was tried is there whole, or not at all. */
        public void atomic() {
            say("atomic");
        }

        /** Before all others: it keeps a "prefix" of what it acknowledges, or only "opens". */
        public void promise(String less) {
            say("promise " + less);
        }

        /** Work begins. */
        public void ready() {
            say("ready");
        }

        /** The operation may leave a trace from now on. */
        public void trying(long operation) {
            say("? " + operation);
        }

        /** The operation was promised to survive a power cut. */
        public void durable(long operation) {
            say("+ " + operation);
        }

        /** The operation has failed, and may or may not be there. */
        public void failed(long operation) {
            say("- " + operation);
        }

        /** check: the operation is there, and right. */
        public void present(long operation) {
            say("= " + operation);
        }

        /** check: the operation is there, and wrong. */
        public void wrong(long operation, String reason) {
            say("x " + operation + " " + reason);
        }

        /** check: the store contradicts itself. */
        public void bad(String reason) {
            say("bad " + reason);
        }
    }

    /** A JVM starts for each verb: little compilation.  The last is for the descriptor of the lines. */
    private static final List<String> JVM = Arrays.asList(
            "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.io=ALL-UNNAMED");

    private PowerCut() {}

    /**
     * Puts `powercut try` to a program, and fails with the cause unless it is SAFE. Options are those of
     * `powercut try`. The environment's POWERCUT says where powercut is, else PATH does. The program
     * has a constructor without parameters.
     */
    public static void cut(Class<? extends Program> program, String... options) throws Exception {
        String given = System.getenv("POWERCUT");
        List<String> command = new ArrayList<>(List.of(given == null ? "powercut" : given, "try"));
        command.addAll(Arrays.asList(options));
        command.addAll(List.of("--env=CLASSPATH=" + classPath(), "--"));
        command.add(Paths.get(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(JVM);
        command.addAll(List.of(PowerCut.class.getName(), program.getName()));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String told = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        int status = process.waitFor();
        if (status != 0) {
            throw new AssertionError(command.get(0) + ": " + status + "\n" + told);
        }
        System.out.print(told);
    }

    private static String classPath() {
        List<String> paths = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            paths.add(Paths.get(path).toAbsolutePath().toString());
        }
        return String.join(File.pathSeparator, paths);
    }

    /** What powercut starts: the name of the program's class, then a verb and a folder. */
    public static void main(String[] words) {
        try {
            verb(words[0], words[words.length - 2], Paths.get(words[words.length - 1]));
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0); // threads of the program's own do not keep it
    }

    private static void verb(String name, String verb, Path folder) throws Exception {
        Constructor<?> constructor = Class.forName(name).getDeclaredConstructor();
        constructor.setAccessible(true);
        Program program = (Program) constructor.newInstance();
        switch (verb) {
            case "setup":
                program.setup(folder);
                break;
            case "run":
                program.run(folder, new Session(lines()));
                break;
            case "check":
                program.check(folder, new Session(lines()));
                break;
            default:
                throw new IllegalArgumentException(verb + ": no verb of powercut");
        }
    }

    /** The descriptor POWERCUT_FD. Java opens files by name only, and a socket has no name to open. */
    private static FileOutputStream lines() throws Exception {
        FileDescriptor descriptor = new FileDescriptor();
        Field number = FileDescriptor.class.getDeclaredField("fd");
        number.setAccessible(true); // which --add-opens allows
        number.setInt(descriptor, Integer.parseInt(System.getenv("POWERCUT_FD")));
        return new FileOutputStream(descriptor);
    }
}
