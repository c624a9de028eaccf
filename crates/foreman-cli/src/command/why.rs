//! `foreman why` outside a cage. Inside one, another program answers to that name.

use super::Done;
use foreman_domain::{Code, Failure};

/// Says where it works.
pub fn outside() -> Done {
    Err(Failure::new(Code::BadInput, "`foreman why` answers inside a cage, and this is not one")
        .hint("Outside, `foreman policy why HOST:PORT` explains a verdict, and `foreman blocks` lists what is held.")
        .into())
}
