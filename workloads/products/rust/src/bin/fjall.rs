// SPDX-License-Identifier: Apache-2.0

//! fjall: insert, then persist(SyncAll).

use fjall::{Config, Keyspace, PartitionCreateOptions, PartitionHandle, PersistMode};
use products::{serve, Outcome, Store, Values};

struct Kept(Keyspace, PartitionHandle);

impl Store for Kept {
    fn open(folder: &str) -> Outcome<Self> {
        let keyspace = Config::new(format!("{folder}/store")).open()?;
        let kept = keyspace.open_partition("kept", PartitionCreateOptions::default())?;
        Ok(Kept(keyspace, kept))
    }

    fn put(&mut self, number: u64, value: &[u8]) -> Outcome<()> {
        self.1.insert(number.to_be_bytes(), value)?;
        self.0.persist(PersistMode::SyncAll)?;
        Ok(())
    }

    fn read(&mut self) -> Outcome<Values> {
        let mut found = Values::new();
        for one in self.1.iter() {
            let (key, value) = one?;
            found.push((u64::from_be_bytes(key.as_ref().try_into()?), value.to_vec()));
        }
        Ok(found)
    }
}

fn main() {
    serve::<Kept>();
}
