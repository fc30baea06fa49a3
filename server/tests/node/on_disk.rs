//! Tables that are kept on disk: what was acknowledged is there when the node starts again, by the system's files.

mod disk_node;
mod failing;
mod restarts;
mod watched;
