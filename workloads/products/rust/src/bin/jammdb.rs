// SPDX-License-Identifier: Apache-2.0

//! jammdb: a transaction, committed.

use jammdb::{Data, DB};
use products::{serve, Outcome, Store, Values};

struct Kept(DB);

impl Store for Kept {
    fn open(folder: &str) -> Outcome<Self> {
        Ok(Kept(DB::open(format!("{folder}/store.jammdb"))?))
    }

    fn put(&mut self, number: u64, value: &[u8]) -> Outcome<()> {
        let transaction = self.0.tx(true)?;
        let bucket = transaction.get_or_create_bucket("kept")?;
        bucket.put(number.to_be_bytes(), value)?;
        transaction.commit()?;
        Ok(())
    }

    fn read(&mut self) -> Outcome<Values> {
        let mut found = Values::new();
        let transaction = self.0.tx(false)?;
        for data in transaction.get_bucket("kept")?.cursor() {
            if let Data::KeyValue(pair) = data {
                let key = u64::from_be_bytes(pair.key().try_into()?);
                found.push((key, pair.value().to_vec()));
            }
        }
        Ok(found)
    }
}

fn main() {
    serve::<Kept>();
}
