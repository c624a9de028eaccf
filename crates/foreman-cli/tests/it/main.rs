//! The program as a caller meets it: what it prints where, and what it exits with.

mod command_line;
mod errors;
mod program;
