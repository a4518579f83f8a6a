// SPDX-License-Identifier: Apache-2.0

//! redb 4.6.

use redb4 as redb;

include!("../redb.in");
