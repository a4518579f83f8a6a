#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tantivy: commit() does not sync the folder after it has renamed meta.json.

A power cut after commit() has returned may leave the meta.json of the commit before.  The same with
the rename there, as a sync of the folder would have it, loses nothing."""

import importlib.metadata
import shutil
import sys
import tempfile

try:
    import tantivy
except ImportError:
    print("tantivy is not installed: pip install tantivy")
    sys.exit(77)


def documents_after_the_cut(name, rename_is_there):
    after = f"{top}/{name}"
    shutil.copytree(folder, after)
    if not rename_is_there:
        shutil.copy(f"{top}/meta-before", f"{after}/meta.json")
    found = tantivy.Index.open(after).searcher().num_docs
    print(f"{name}: {found} of 2 acknowledged documents")
    return found


top, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
print("tantivy", importlib.metadata.version("tantivy"))
builder = tantivy.SchemaBuilder()
builder.add_integer_field("number", stored=True, indexed=True)
index = tantivy.Index(builder.build(), folder)
writer = index.writer(15_000_000, 1)
for number in (1, 2):
    shutil.copy(f"{folder}/meta.json", f"{top}/meta-before")  # lost is the rename over this one
    writer.add_document(tantivy.Document(number=number))
    writer.commit()  # acknowledged
# cut here
assert documents_after_the_cut("rename-synced", True) == 2
lost = documents_after_the_cut("rename-not-synced", False) < 2
shutil.rmtree(top), shutil.rmtree(folder)
sys.exit(1 if lost else 0)
