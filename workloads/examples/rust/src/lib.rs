// SPDX-License-Identifier: Apache-2.0

//! Notes in a file, a line each.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::path::Path;

/// An open store.
pub struct Notes(File);

impl Notes {
    /// Makes the store in `folder`, durably.
    pub fn create(folder: &Path) -> Result<()> {
        File::create(folder.join("notes"))?.sync_all()?;
        File::open(folder)?.sync_all()
    }

    /// Opens the store in `folder`.
    pub fn open(folder: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).open(folder.join("notes"))?;
        Ok(Notes(file))
    }

    /// Adds a note; it is durable once this returns.
    pub fn add(&mut self, id: u64) -> Result<()> {
        self.0.write_all(format!("{id}\n").as_bytes())?;
        self.0.sync_data() // without this every acknowledged note can be lost
    }

    /// The notes in `folder`; a line that is not finished is none.
    pub fn read(folder: &Path) -> Result<Vec<u64>> {
        let text = std::fs::read(folder.join("notes"))?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let lines = text[..whole].split(|&byte| byte == b'\n');
        Ok(lines.filter_map(|line| std::str::from_utf8(line).ok()?.parse().ok()).collect())
    }
}
