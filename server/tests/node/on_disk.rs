//! What is kept on disk: what was acknowledged is there when the node starts again, by the system's files, or the node says why not.

mod coordinators_log;
mod disk_node;
mod failing;
mod full;
mod leaving;
mod restarts;
mod starts;
mod watched;
