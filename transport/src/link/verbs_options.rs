//! Which RDMA device to use, and why there is none. Part of every build, so that settings and
//! messages are the same in all of them.

use std::io;

/// Which RDMA device and address connections over verbs use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerbsOptions {
    /// The device's name, such as `mlx5_0`; without one, the first device that has an active port.
    pub device: Option<String>,
    /// The index of the address (GID) in the port's table; without one, the first address of RoCE
    /// version 2, or of InfiniBand.
    pub gid_index: Option<u8>,
}

/// Why verbs cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// The program was built without them.
    #[error("this program was built without verbs: build it with the cargo feature `verbs`")]
    NotBuilt,
    /// No device that libibverbs knows.
    #[error(
        "no RDMA device: `ibv_devices` lists those there are; on a plain network card, \
         `rdma link add rxe0 type rxe netdev eth0` makes one"
    )]
    NoDevice,
    /// None of that name.
    #[error("no RDMA device `{device}`: there is {there}")]
    NoSuchDevice {
        /// The name.
        device: String,
        /// The names of those that there are.
        there: String,
    },
    /// None of its ports is up.
    #[error("no port of {devices} is active: `rdma link` says what state they are in")]
    NoActivePort {
        /// The names of the devices that were looked at.
        devices: String,
    },
    /// No address at the index that was asked for.
    #[error("no GID at index {index} of `{device}`: `ibv_devinfo -v` lists them")]
    NoGid {
        /// The device's name.
        device: String,
        /// The index.
        index: u8,
    },
    /// No address that connections could use.
    #[error("`{device}` has no GID of RoCE version 2 or InfiniBand: has its interface an address?")]
    NoUsableGid {
        /// The device's name.
        device: String,
    },
    /// The device cannot do what is needed.
    #[error("`{device}` has no shared receive queues with two pieces each")]
    Unfit {
        /// The device's name.
        device: String,
    },
    /// The system refused something.
    #[error("failed to {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}
