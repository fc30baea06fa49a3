//! Graphs on their way from one process to another.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arriving;
mod ending;
mod following;
mod granting;
mod hostile;
mod world;
