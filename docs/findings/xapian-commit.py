#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Xapian's glass: commit() renames iamglass and does not sync the folder.

A power cut after commit() has returned may leave the iamglass of the commit before.  With one
commit lost so, that commit is gone; if the next one had begun to write, its blocks are those that
the old iamglass leads to.  With the new iamglass, as a sync of the folder would have it, all is there."""

import shutil
import sys
import tempfile

try:
    import xapian
except ImportError:
    print("Xapian is not installed: apt-get install python3-xapian")
    sys.exit(77)


def committed_and_cut(name, folder_synced, blocks_of_next):
    path = f"{tempfile.mkdtemp()}/store"
    db = xapian.WritableDatabase(path, xapian.DB_CREATE_OR_OPEN)
    for number in range(1, 11):
        shutil.copy(f"{path}/iamglass", f"{path}.old")
        db.add_document(xapian.Document())
        db.commit()  # acknowledged
    shutil.copy(f"{path}/iamglass", f"{path}.new")
    if blocks_of_next:
        db.add_document(xapian.Document())
        db.commit()  # of this one only the blocks will be there
    shutil.copytree(path, f"{path}.cut")  # cut here
    shutil.copy(f"{path}.new" if folder_synced else f"{path}.old", f"{path}.cut/iamglass")
    try:
        found = xapian.WritableDatabase(f"{path}.cut", xapian.DB_OPEN)
        count = sum(1 for _ in found.postlist(""))
        said = f"{count} of 10 acknowledged documents"
    except xapian.DatabaseError as error:
        count, said = 0, f"{type(error).__name__}: {error}"
    print(f"{name}: {said}")
    return count >= 10


print("Xapian", xapian.version_string())
assert committed_and_cut("rename synced", True, False)
assert committed_and_cut("rename synced, the next commit begun", True, True)
kept = committed_and_cut("rename not synced", False, False)
kept &= committed_and_cut("rename not synced, the next commit begun", False, True)
sys.exit(0 if kept else 1)
