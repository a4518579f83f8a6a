// SPDX-License-Identifier: Apache-2.0

// Lucene behind piped.py: IndexWriter.commit(), and forceMerge() to tend it.  Requests are lines of
// standard input, answers lines of standard output, as rust/src/lib.rs has them.

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.util.Version;

public class Lucene {
    public static void main(String[] words) {
        try {
            serve(FSDirectory.open(new File(words[0], "store")));
        } catch (Exception error) {
            System.out.println("bad " + error.toString().replace('\n', ' '));
        }
    }

    static void serve(FSDirectory folder) throws Exception {
        IndexWriter writer = null;
        System.out.println("ok");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 3);
            if (words[0].equals("read")) {
                read(folder);
                continue;
            }
            if (writer == null) {
                IndexWriter.unlock(folder); // a lock file stays after a power cut
                writer = new IndexWriter(folder, new IndexWriterConfig(Version.LUCENE_47, new KeywordAnalyzer()));
            }
            if (words[0].equals("put")) {
                Document document = new Document();
                document.add(new StoredField("number", words[1]));
                document.add(new StoredField("value", words[2]));
                writer.addDocument(document);
            } else {
                writer.forceMerge(1);
            }
            writer.commit();
            System.out.println("ok");
        }
    }

    static void read(FSDirectory folder) throws Exception {
        if (DirectoryReader.indexExists(folder)) {
            DirectoryReader reader = DirectoryReader.open(folder);
            for (int n = 0; n < reader.maxDoc(); n++) {
                Document document = reader.document(n);
                System.out.println(document.get("number") + " " + document.get("value"));
            }
        }
        System.out.println("end");
    }
}
