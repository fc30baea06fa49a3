//! Which link the transport runs over, as the command line says it.

use clap::ValueEnum;
use weft_transport::{LinkPolicy, VerbsError, VerbsOptions};

/// What connects the processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LinkKind {
    Tcp,
    Shm,
    Verbs,
}

/// The link, and for verbs the device.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) kind: LinkKind,
    pub(crate) verbs: VerbsOptions,
}

#[derive(clap::Args, Clone)]
pub(crate) struct LinkArgs {
    /// Link that the transport runs over
    #[arg(long, value_enum, default_value_t = LinkKind::Tcp)]
    link: LinkKind,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(clap::Args, Clone)]
pub(crate) struct DeviceArgs {
    /// RDMA device that verbs use [default: the first with an active port]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Index of the address (GID) that verbs use [default: the first of RoCE version 2]
    #[arg(long, value_name = "N")]
    gid_index: Option<u8>,
}

impl LinkArgs {
    /// The link that was named, whether or not it can be used.
    pub(crate) fn kind(&self) -> LinkKind {
        self.link
    }

    pub(crate) fn into_links(self) -> Result<Links, String> {
        Ok(Links { kind: self.link, verbs: self.device.into_options(&[self.link])? })
    }
}

impl DeviceArgs {
    /// The device for these links.
    pub(crate) fn into_options(self, links: &[LinkKind]) -> Result<VerbsOptions, String> {
        // The processes that it starts would each say so in the middle of things.
        if links.contains(&LinkKind::Verbs) && !cfg!(feature = "verbs") {
            return Err(format!("--link verbs: {}", VerbsError::NotBuilt));
        }
        let Self { device, gid_index } = self;
        let flags = [("--device", device.is_some()), ("--gid-index", gid_index.is_some())];
        match flags.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) if !links.contains(&LinkKind::Verbs) => {
                let names: Vec<_> = links.iter().map(|link| link.name()).collect();
                Err(format!("{flag} is for verbs, but --link is {}: leave it out", names.join(",")))
            }
            _ => Ok(VerbsOptions { device, gid_index }),
        }
    }
}

impl Links {
    /// The arguments by which another process of this program gets the same.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--link".to_owned(), self.kind.name().to_owned()];
        if let Some(device) = &self.verbs.device {
            arguments.extend(["--device".to_owned(), device.clone()]);
        }
        if let Some(index) = self.verbs.gid_index {
            arguments.extend(["--gid-index".to_owned(), index.to_string()]);
        }
        arguments
    }
}

impl LinkKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkKind::Tcp => "tcp",
            LinkKind::Shm => "shm",
            LinkKind::Verbs => "verbs",
        }
    }

    pub(crate) fn policy(self) -> LinkPolicy {
        match self {
            LinkKind::Tcp => LinkPolicy::Tcp,
            LinkKind::Shm => LinkPolicy::Shm,
            LinkKind::Verbs => LinkPolicy::Verbs,
        }
    }
}
