// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.EOFException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.h2.api.ErrorCode;
import org.h2.mvstore.DataUtils;
import org.h2.mvstore.MVStoreException;

/**
 * Drives com.h2database:h2, embedded, as lines ask for it (workloads/programs/driver.py has the
 * protocol, bank.py the transfers).
 */
public final class H2 {
    private static final int ACCOUNTS = 16;
    private static final int BALANCE = 1000;

    /** H2's words for a file, or for tables, that make no sense. */
    private static final Set<Integer> DAMAGE =
            Set.of(
                    ErrorCode.FILE_CORRUPTED_1,
                    ErrorCode.TABLE_OR_VIEW_NOT_FOUND_1,
                    ErrorCode.TABLE_OR_VIEW_NOT_FOUND_WITH_CANDIDATES_2,
                    ErrorCode.TABLE_OR_VIEW_NOT_FOUND_DATABASE_EMPTY_1);

    private static final Set<Integer> DAMAGE_OF_THE_STORE =
            Set.of(
                    DataUtils.ERROR_INTERNAL,
                    DataUtils.ERROR_UNSUPPORTED_FORMAT,
                    DataUtils.ERROR_FILE_CORRUPT,
                    DataUtils.ERROR_CHUNK_NOT_FOUND,
                    DataUtils.ERROR_BLOCK_NOT_FOUND,
                    DataUtils.ERROR_TRANSACTION_CORRUPT,
                    DataUtils.ERROR_UNKNOWN_DATA_TYPE);

    /** Another client has changed what this one changes; it tries again. */
    private static final Set<Integer> BUSY =
            Set.of(
                    ErrorCode.DEADLOCK_1,
                    ErrorCode.LOCK_TIMEOUT_1,
                    ErrorCode.CONCURRENT_UPDATE_1);

    private static final class Damaged extends Exception {
        private static final long serialVersionUID = 1;

        Damaged(String why) {
            super(why);
        }
    }

    private interface Act {
        void act() throws Exception;
    }

    private final String url;
    private final boolean checkpoint;
    private final PrintStream out = new PrintStream(System.out, false);
    private Connection first;

    private H2(String folder, Map<String, String> settings) {
        String delay = settings.get("write_delay");
        url = "jdbc:h2:file:" + folder + "/bank;DB_CLOSE_ON_EXIT=FALSE"
                + (delay.equals("default") ? "" : ";WRITE_DELAY=" + Integer.parseInt(delay));
        checkpoint = settings.get("checkpoint").equals("sync");
    }

    public static void main(String[] words) throws Exception {
        Map<String, String> settings =
                new TreeMap<>(Map.of("checkpoint", "sync", "write_delay", "default"));
        for (int i = 0; i < words.length - 1; i++) {
            String[] pair = words[i].split("=", 2);
            if (pair.length < 2 || settings.replace(pair[0], pair[1]) == null) {
                stop(new IllegalArgumentException(words[i] + ": no setting"), false);
            }
        }
        if (words.length == 0 || !Set.of("sync", "off").contains(settings.get("checkpoint"))) {
            String usage = "usage: h2 [checkpoint=sync|off] [write_delay=MILLISECONDS] FOLDER";
            stop(new IllegalArgumentException(usage), false);
        }
        H2 h2 = new H2(words[words.length - 1], settings);
        h2.answer(() -> h2.first = h2.connect());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] command = line.trim().split(" +");
            h2.answer(() -> h2.obey(command));
        }
        try {
            h2.first.close();
        } catch (Exception error) {
            stop(error, damaged(error));
        }
        System.exit(0);
    }

    private void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "create" -> create();
            case "move" -> move(first, Integer.parseInt(words[1]));
            case "read" -> read();
            case "run" -> run(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            default -> throw new IllegalArgumentException("no command: " + words[0]);
        }
    }

    private Connection connect() throws SQLException {
        Connection connection = DriverManager.getConnection(url, "sa", "");
        connection.setAutoCommit(false);
        return connection;
    }

    private void create() throws SQLException {
        execute(first, "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)");
        execute(first, "CREATE TABLE transfer (number INT PRIMARY KEY, giver INT NOT NULL,"
                + " taker INT NOT NULL, note VARCHAR NOT NULL)");
        for (int id = 0; id < ACCOUNTS; id++) {
            execute(first, "INSERT INTO account VALUES (" + id + ", " + BALANCE + ")");
        }
        first.commit();
        execute(first, "CHECKPOINT SYNC");
    }

    /** One transfer; it returns once it is committed, and forced to the disk if that is asked for. */
    private void move(Connection connection, int number) throws Exception {
        while (true) {
            try {
                change(connection, number);
                connection.commit();
                break;
            } catch (SQLException error) {
                if (!BUSY.contains(error.getErrorCode())) {
                    throw error;
                }
                connection.rollback();
            }
        }
        if (checkpoint) {
            execute(connection, "CHECKPOINT SYNC");
        }
    }

    private void change(Connection connection, int number) throws SQLException, Damaged {
        int giver = number % ACCOUNTS;
        int taker = (giver + 1 + number / ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS;
        // In the order of the accounts, so that no two clients wait for each other.
        for (int id : new int[] {Math.min(giver, taker), Math.max(giver, taker)}) {
            try (PreparedStatement update = connection.prepareStatement(
                    "UPDATE account SET balance = balance + ? WHERE id = ?")) {
                update.setInt(1, id == giver ? -1 : 1);
                update.setInt(2, id);
                if (update.executeUpdate() != 1) {
                    throw new Damaged("account " + id + " is not there once");
                }
            }
        }
        try (PreparedStatement insert =
                connection.prepareStatement("INSERT INTO transfer VALUES (?, ?, ?, ?)")) {
            insert.setInt(1, number);
            insert.setInt(2, giver);
            insert.setInt(3, taker);
            insert.setString(4, "transfer " + number + " " + ".".repeat(number % 200));
            insert.executeUpdate();
        }
    }

    private void read() throws SQLException {
        try (Statement statement = first.createStatement()) {
            tell(statement, "SELECT 'account', id, balance FROM account");
            tell(statement, "SELECT 'transfer', number, giver, taker, note FROM transfer");
        }
        first.commit();
    }

    private void tell(Statement statement, String query) throws SQLException {
        try (ResultSet rows = statement.executeQuery(query)) {
            int columns = rows.getMetaData().getColumnCount();
            while (rows.next()) {
                for (int column = 1; column <= columns; column++) {
                    out.print(rows.getString(column) + (column < columns ? " " : "\n"));
                }
            }
        }
    }

    /** Returns only if a client fails. */
    private void run(int start, int clients) throws Exception {
        // Java opens no descriptor that it inherits, but its name; a FileOutputStream has no buffer.
        OutputStream session =
                new FileOutputStream("/proc/self/fd/" + System.getenv("POWERCUT_FD"), true);
        AtomicInteger next = new AtomicInteger(start);
        BlockingQueue<Throwable> failed = new LinkedBlockingQueue<>();
        for (int client = 0; client < clients; client++) {
            Connection connection = connect();
            Thread thread = new Thread(() -> {
                try {
                    while (true) {
                        int number = next.getAndIncrement();
                        session.write(("? " + number + "\n").getBytes());
                        move(connection, number);
                        session.write(("+ " + number + "\n").getBytes());
                    }
                } catch (Throwable error) {
                    failed.add(error);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        throw new Exception("a client failed", failed.take());
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    /** Does one thing and says how it went. */
    private void answer(Act act) {
        try {
            act.act();
        } catch (Throwable error) {
            out.flush();
            stop(error, damaged(error));
        }
        out.print("ok\n");
        out.flush();
    }

    /**
     * Whether an error is H2's word for a store that makes no sense, or the crash of it over one. An
     * error of the machine, such as a full disk or too little memory, says nothing about the store.
     */
    private static boolean damaged(Throwable error) {
        boolean damaged = false;
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof VirtualMachineError) {
                return false;
            }
            if (cause instanceof IOException) {
                return cause instanceof EOFException; // the file ends before what it names
            }
            if (cause instanceof MVStoreException store) {
                damaged |= DAMAGE_OF_THE_STORE.contains(store.getErrorCode());
            } else if (cause instanceof SQLException said) {
                damaged |= DAMAGE.contains(said.getErrorCode());
            } else {
                damaged |= cause instanceof Damaged
                        || cause instanceof NullPointerException
                        || cause instanceof IndexOutOfBoundsException
                        || cause instanceof ClassCastException
                        || cause instanceof AssertionError;
            }
        }
        return damaged;
    }

    private static void stop(Throwable error, boolean damaged) {
        StringBuilder said = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            said.append(said.isEmpty() ? "" : ": ").append(cause);
        }
        String word = damaged ? "damaged H2 says: " : "trouble ";
        System.out.println(word + said.toString().replaceAll("\\s+", " "));
        System.out.flush();
        Runtime.getRuntime().halt(1);
    }
}
