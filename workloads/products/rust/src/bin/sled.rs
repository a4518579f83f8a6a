// SPDX-License-Identifier: Apache-2.0

//! sled: insert, then flush().

use products::{serve, Outcome, Store, Values};

struct Sled(sled::Db);

impl Store for Sled {
    fn open(folder: &str) -> Outcome<Self> {
        Ok(Sled(sled::open(format!("{folder}/store"))?))
    }

    fn put(&mut self, number: u64, value: &[u8]) -> Outcome<()> {
        self.0.insert(number.to_be_bytes(), value)?;
        self.0.flush()?;
        Ok(())
    }

    fn read(&mut self) -> Outcome<Values> {
        let mut found = Values::new();
        for one in self.0.iter() {
            let (key, value) = one?;
            found.push((u64::from_be_bytes(key.as_ref().try_into()?), value.to_vec()));
        }
        Ok(found)
    }
}

fn main() {
    serve::<Sled>();
}
