// SPDX-License-Identifier: Apache-2.0

//! A store of Rust behind `piped.py`: requests are lines of standard input, answers lines of
//! standard output.
//!
//! `put N VALUE` answers `ok` once the store has said that the value is durable; `tend` likewise;
//! `read` answers a line `N VALUE` for each value, then `end`.  `bad REASON` is the store's own error.

use std::error::Error;
use std::io::{stdin, BufRead};

pub type Outcome<T> = Result<T, Box<dyn Error>>;
pub type Values = Vec<(u64, Vec<u8>)>;

pub trait Store: Sized {
    fn open(folder: &str) -> Outcome<Self>;
    fn put(&mut self, number: u64, value: &[u8]) -> Outcome<()>;
    fn read(&mut self) -> Outcome<Values>;
    fn tend(&mut self) -> Outcome<()> {
        Ok(())
    }
}

pub fn serve<S: Store>() {
    let folder = std::env::args().nth(1).expect("the folder");
    if let Err(error) = answer::<S>(&folder) {
        println!("bad {}", error.to_string().replace('\n', " "));
    }
}

fn answer<S: Store>(folder: &str) -> Outcome<()> {
    let mut store = S::open(folder)?;
    println!("ok");
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[0] {
            "put" => store.put(words[1].parse()?, words[2].as_bytes())?,
            "tend" => store.tend()?,
            "read" => {
                for (number, value) in store.read()? {
                    println!("{number} {}", String::from_utf8_lossy(&value));
                }
                println!("end");
                continue;
            }
            other => return Err(format!("no request {other}").into()),
        }
        println!("ok");
    }
    Ok(())
}
