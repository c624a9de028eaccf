//! A changed migration is a changed program.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
