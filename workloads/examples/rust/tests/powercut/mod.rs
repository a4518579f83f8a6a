// SPDX-License-Identifier: Apache-2.0

//! Makes a test of `cargo test` a program whose power is cut: copy this file to tests/powercut/mod.rs.
//! The lines that it speaks are those of docs/adding-a-program.md.

#![allow(dead_code)] // a test need not say every line

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::os::unix::io::{FromRawFd, RawFd};
use std::path::Path;
use std::process::{exit, Command};
use std::{env, panic, thread};

/// What a verb returns; an error says that it has not done its work.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The three verbs. Each runs in a process of its own.
pub trait Program {
    /// Prepares the store in `folder`, which is there and empty.
    fn setup(&self, folder: &Path) -> Outcome {
        let _ = folder;
        Ok(())
    }
    /// Works until it is killed. Returning early is allowed; an error ends in INCONCLUSIVE.
    fn run(&self, folder: &Path, session: &Session) -> Outcome;
    /// Recovers the store and says what is there. An error: it has not looked at everything.
    fn check(&self, folder: &Path, session: &Session) -> Outcome;
}

/// Says what the program does; each call is one write, from any thread.
pub struct Session(File);

impl Session {
    fn say(&self, line: impl Display) {
        let line = line.to_string().replace('\n', " ") + "\n";
        if (&self.0).write_all(line.as_bytes()).is_err() {
            eprintln!("powercut does not listen");
            exit(1);
        }
    }
    /// Before all others: an operation that was tried is there whole, or not at all.
    pub fn atomic(&self) {
        self.say("atomic");
    }
    /// Before all others: it keeps a "prefix" of what it acknowledges, or only "opens".
    pub fn promise(&self, less: &str) {
        self.say(format_args!("promise {less}"));
    }
    /// Work begins.
    pub fn ready(&self) {
        self.say("ready");
    }
    /// The operation may leave a trace from now on.
    pub fn trying(&self, operation: u64) {
        self.say(format_args!("? {operation}"));
    }
    /// The operation was promised to survive a power cut.
    pub fn durable(&self, operation: u64) {
        self.say(format_args!("+ {operation}"));
    }
    /// The operation has failed, and may or may not be there.
    pub fn failed(&self, operation: u64) {
        self.say(format_args!("- {operation}"));
    }
    /// check: the operation is there, and right.
    pub fn present(&self, operation: u64) {
        self.say(format_args!("= {operation}"));
    }
    /// check: the operation is there, and wrong.
    pub fn wrong(&self, operation: u64, reason: impl Display) {
        self.say(format_args!("x {operation} {reason}"));
    }
    /// check: the store contradicts itself.
    pub fn bad(&self, reason: impl Display) {
        self.say(format_args!("bad {reason}"));
    }
}

/// Puts `powercut try` to `program`, and fails with the cause unless it is SAFE. `test` is the name of
/// the test that calls this, with its modules (`module::test`); options are those of `powercut try`.
/// The environment's POWERCUT says where powercut is, else PATH does.
///
/// powercut starts this very test again for each verb, so what comes before it in a test runs there,
/// too.
pub fn cut(test: &str, program: impl Program, options: &[&str]) {
    if let Ok(descriptor) = env::var("POWERCUT_FD") {
        let done = panic::catch_unwind(panic::AssertUnwindSafe(|| verb(&program, &descriptor)));
        match done {
            Ok(Ok(())) => exit(0),
            Ok(Err(error)) => eprintln!("{error}"),
            Err(_) => {} // the panic has said why
        }
        exit(1); // a test that merely failed would be one of several
    }
    let this = thread::current();
    if let Some(name) = this.name().filter(|name| *name != "main" && *name != test) {
        panic!("this test is called {name:?}, and says that it is {test:?}");
    }
    let powercut = env::var("POWERCUT").unwrap_or_else(|_| "powercut".into());
    let told = Command::new(&powercut)
        .arg("try")
        .args(options)
        .arg("--")
        .arg(env::current_exe().expect("the test's own path"))
        .args(["--nocapture", "--exact", test])
        .output()
        .unwrap_or_else(|error| panic!("{powercut}: {error}"));
    let text = [told.stdout, told.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(told.status.success(), "{powercut}: {}\n{text}", told.status);
    println!("{text}");
}

/// Does what powercut asks for: the last two words are verb and folder.
fn verb(program: &impl Program, descriptor: &str) -> Outcome {
    let descriptor: RawFd = descriptor.parse()?;
    // SAFETY: powercut opened it for this process, and nothing else here has it.
    let session = Session(unsafe { File::from_raw_fd(descriptor) });
    let words: Vec<_> = env::args_os().collect();
    let (verb, folder) = match words.as_slice() {
        [.., verb, folder] => (verb, folder),
        _ => return Err("powercut gives a verb and a folder".into()),
    };
    let folder = Path::new(folder);
    match verb.to_str() {
        Some("setup") => program.setup(folder),
        Some("run") => program.run(folder, &session),
        Some("check") => program.check(folder, &session),
        _ => Err(format!("{}: no verb of powercut", verb.to_string_lossy()).into()),
    }
}
