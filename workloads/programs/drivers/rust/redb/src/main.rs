// SPDX-License-Identifier: Apache-2.0

//! Drives redb: bank transfers, as lines ask for them (workloads/programs/driver.py has the protocol,
//! bank.py the transfers).  Its clients are threads of one `Database`, whose writers redb lets in one
//! at a time.

use std::env;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

const ACCOUNTS: u64 = 16;
const BALANCE: i64 = 1000;
const BALANCES: TableDefinition<u64, i64> = TableDefinition::new("accounts");
const TRANSFERS: TableDefinition<u64, &str> = TableDefinition::new("transfers");

/// Why a line was not obeyed.
enum Failure {
    /// The store says that it is damaged.
    Damaged(String),
    /// Anything else, such as a full disk: says nothing about the store.
    Trouble(String),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let damage = match &error {
            redb::Error::Corrupted(_)
            | redb::Error::TableDoesNotExist(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::UpgradeRequired(_) => true,
            redb::Error::Io(cause) => {
                matches!(cause.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
            }
            _ => false,
        };
        let said = format!("redb says: {error}");
        if damage { Failure::Damaged(said) } else { Failure::Trouble(said) }
    }
}

fn trouble(what: impl ToString) -> Failure {
    Failure::Trouble(what.to_string())
}

struct Store {
    database: Database,
    durability: Durability,
    two_phase: bool,
}

impl Store {
    fn open(folder: &str, settings: &[(String, String)]) -> Result<Self, Failure> {
        let (mut durability, mut two_phase) = (Durability::Immediate, false);
        for (name, value) in settings {
            match (name.as_str(), value.as_str()) {
                ("durability", "immediate") => durability = Durability::Immediate,
                ("durability", "none") => durability = Durability::None,
                ("two_phase", "off") => two_phase = false,
                ("two_phase", "on") => two_phase = true,
                _ => return Err(trouble(format!("{name}={value}: no setting"))),
            }
        }
        let database = Database::create(Path::new(folder).join("bank.redb"))?;
        Ok(Store { database, durability, two_phase })
    }

    fn obey(&mut self, out: &mut impl Write, line: &str) -> Result<(), Failure> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().map_err(trouble);
        match words.as_slice() {
            ["create"] => self.create(),
            ["move", _] => self.transfer(number(1)?),
            ["read"] => self.read(out),
            ["run", _, _] => self.run(number(1)?, number(2)?),
            _ => Err(trouble(format!("no command: {line:?}"))),
        }
    }

    fn create(&self) -> Result<(), Failure> {
        let change = self.database.begin_write()?;
        {
            let mut balances = change.open_table(BALANCES)?;
            for id in 0..ACCOUNTS {
                balances.insert(id, BALANCE)?;
            }
            change.open_table(TRANSFERS)?;
        }
        Ok(change.commit()?)
    }

    fn transfer(&self, number: u64) -> Result<(), Failure> {
        let giver = number % ACCOUNTS;
        let taker = (giver + 1 + number / ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS;
        let dots = ".".repeat((number % 200) as usize);
        let mut change = self.database.begin_write()?;
        change.set_durability(self.durability)?;
        change.set_two_phase_commit(self.two_phase);
        {
            let mut balances = change.open_table(BALANCES)?;
            for (id, amount) in [(giver, -1), (taker, 1)] {
                let Some(before) = balances.get(id)?.map(|found| found.value()) else {
                    return Err(Failure::Damaged(format!("account {id} is not there")));
                };
                balances.insert(id, before + amount)?;
            }
            let row = format!("{giver} {taker} transfer {number} {dots}");
            change.open_table(TRANSFERS)?.insert(number, row.as_str())?;
        }
        Ok(change.commit()?)
    }

    /// Tells all rows; first has redb verify its checksums and what it knows of free pages.
    fn read(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        if !self.database.check_integrity()? {
            return Err(Failure::Damaged("redb's check found damage and repaired it".into()));
        }
        let view = self.database.begin_read()?;
        for row in view.open_table(BALANCES)?.iter()? {
            let (id, amount) = row?;
            writeln!(out, "account {} {}", id.value(), amount.value()).map_err(trouble)?;
        }
        for row in view.open_table(TRANSFERS)?.iter()? {
            let (number, what) = row?;
            writeln!(out, "transfer {} {}", number.value(), what.value()).map_err(trouble)?;
        }
        Ok(())
    }

    /// Returns only if a client fails.
    fn run(&self, first: u64, clients: u64) -> Result<(), Failure> {
        let descriptor = env::var("POWERCUT_FD").map_err(trouble)?.parse().map_err(trouble)?;
        // SAFETY: powercut opened this descriptor for the driver alone; nothing else here uses it.
        let session = unsafe { File::from_raw_fd(descriptor) };
        let next = AtomicU64::new(first);
        let serve = || -> Result<(), Failure> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                (&session).write_all(format!("? {number}\n").as_bytes()).map_err(trouble)?;
                self.transfer(number)?;
                (&session).write_all(format!("+ {number}\n").as_bytes()).map_err(trouble)?;
            }
        };
        thread::scope(|scope| {
            for _ in 1..clients {
                let client = || answer(&mut io::stdout(), serve());
                thread::Builder::new().spawn_scoped(scope, client).map_err(trouble)?;
            }
            answer(&mut io::stdout(), serve());
            Ok(())
        })
    }
}

/// Says how one thing went; ends the driver if it failed.
fn answer<T>(out: &mut impl Write, result: Result<T, Failure>) -> T {
    let (word, why) = match result {
        Ok(value) => {
            if writeln!(out, "ok").and_then(|()| out.flush()).is_err() {
                exit(1);
            }
            return value;
        }
        Err(Failure::Damaged(why)) => ("damaged", why),
        Err(Failure::Trouble(why)) => ("trouble", why),
    };
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Err(error) = writeln!(out, "{word} {why}").and_then(|()| out.flush()) {
        eprintln!("{word} {why}; it could not be said: {error}");
    }
    exit(1);
}

fn main() {
    let mut out = io::BufWriter::new(io::stdout());
    let mut words: Vec<String> = env::args().skip(1).collect();
    let folder = words.pop().unwrap_or_default();
    let settings: Vec<_> = words
        .iter()
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut store = answer(&mut out, Store::open(&folder, &settings));
    for line in io::stdin().lines() {
        let done = line.map_err(trouble).and_then(|line| store.obey(&mut out, &line));
        answer(&mut out, done);
    }
}
