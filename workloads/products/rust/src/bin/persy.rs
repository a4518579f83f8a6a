// SPDX-License-Identifier: Apache-2.0

//! persy: a transaction, prepared and committed, by default settings.

use persy::{Config, Persy};
use products::{serve, Outcome, Store, Values};

struct Kept(Persy);

impl Store for Kept {
    fn open(folder: &str) -> Outcome<Self> {
        let path = format!("{folder}/store.persy");
        Ok(Kept(Persy::open_or_create_with(path, Config::new(), |made| {
            let mut transaction = made.begin()?;
            transaction.create_segment("kept")?;
            transaction.prepare()?.commit()?;
            Ok(())
        })?))
    }

    fn put(&mut self, number: u64, value: &[u8]) -> Outcome<()> {
        let mut transaction = self.0.begin()?;
        let record = [&number.to_be_bytes()[..], value].concat();
        transaction.insert("kept", &record)?;
        transaction.prepare()?.commit()?;
        Ok(())
    }

    fn read(&mut self) -> Outcome<Values> {
        let mut found = Values::new();
        for (_, record) in self.0.scan("kept")? {
            let (key, value) = record.split_at(8);
            found.push((u64::from_be_bytes(key.try_into()?), value.to_vec()));
        }
        Ok(found)
    }
}

fn main() {
    serve::<Kept>();
}
