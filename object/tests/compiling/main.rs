//! What the compiler says of types that cannot travel, and of services that nobody could call: all of it, as who has written them sees it. A message
//! that explains itself is a part of the interface, and becomes a wall of bounds without anybody noticing.
//!
//! When one has changed on purpose, `TRYBUILD=overwrite cargo test -p weft-object --test compiling` writes it down anew. The toolchain is pinned, so that
//! it changes with nothing else; read what has.

#[test]
fn what_is_refused_says_why_and_what_to_do_instead() {
    trybuild::TestCases::new().compile_fail("tests/compiling/refused/*.rs");
}
