// SPDX-License-Identifier: Apache-2.0

//! A program in a test: `cargo test` cuts its power.

mod powercut;

use notes::Notes;
use powercut::{Outcome, Program, Session};
use std::path::Path;

struct Store;

impl Program for Store {
    fn setup(&self, folder: &Path) -> Outcome {
        Ok(Notes::create(folder)?)
    }

    fn run(&self, folder: &Path, session: &Session) -> Outcome {
        let mut notes = Notes::open(folder)?;
        session.ready();
        for id in 1..100_000 {
            session.trying(id);
            notes.add(id)?;
            session.durable(id);
        }
        Ok(())
    }

    fn check(&self, folder: &Path, session: &Session) -> Outcome {
        for id in Notes::read(folder)? {
            session.present(id);
        }
        Ok(())
    }
}

#[test]
fn notes_survive_a_power_cut() {
    powercut::cut("notes_survive_a_power_cut", Store, &["--acks=40", "--budget=32"]);
}
