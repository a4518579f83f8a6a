// SPDX-License-Identifier: Apache-2.0

//! redb 2.6.

mod redb {
    pub use redb2::*;

    /// redb 4's, which `begin_read` is a method of.
    pub trait ReadableDatabase {}
}

include!("../redb.in");
