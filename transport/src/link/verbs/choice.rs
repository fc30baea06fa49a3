//! Which device, port and address to use.

use std::sync::Arc;

use super::ffi::{Context, GidKind, PortState};
use crate::link::verbs_options::{VerbsError, VerbsOptions};

/// An open device, and the port and address on it that connections use.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) context: Arc<Context>,
    pub(super) port: u8,
    pub(super) gid_index: u8,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) mtu: u32,
}

impl Choice {
    /// The device that `options` name, else the first with an active port; on it the address that
    /// they name, else the first that RoCE version 2 or InfiniBand can use.
    pub(super) fn make(options: &VerbsOptions) -> Result<Self, VerbsError> {
        let system = |what| move |source| VerbsError::System { what, source };
        // A kernel without RDMA says that it has no such call.
        let names = Context::names().unwrap_or_default();
        if names.is_empty() {
            return Err(VerbsError::NoDevice);
        }
        let wanted: Vec<&String> = match &options.device {
            Some(device) => names.iter().filter(|name| *name == device).collect(),
            None => names.iter().collect(),
        };
        if wanted.is_empty() {
            let device = options.device.clone().unwrap_or_default();
            return Err(VerbsError::NoSuchDevice { device, there: names.join(", ") });
        }
        let mut last = None;
        for name in &wanted {
            let context = Context::open(name).map_err(system("open the device"))?;
            let ports = context.attributes().map_err(system("ask what the device can do"))?;
            for port in 1..=ports.phys_port_cnt {
                let state = context.port(port).map_err(system("ask for the state of the port"))?;
                if !state.is_active {
                    continue;
                }
                match choose_gid(&context, port, &state, options.gid_index) {
                    Ok((gid_index, gid)) => {
                        let PortState { lid, mtu, .. } = state;
                        let context = Arc::new(context);
                        return Ok(Self { context, port, gid_index, gid, lid, mtu });
                    }
                    Err(error) => last = Some(error),
                }
            }
        }
        let devices = wanted.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        Err(last.unwrap_or(VerbsError::NoActivePort { devices }))
    }
}

fn choose_gid(
    context: &Context,
    port: u8,
    state: &PortState,
    wanted: Option<u8>,
) -> Result<(u8, [u8; 16]), VerbsError> {
    let gids = u8::try_from(state.gids).unwrap_or(u8::MAX);
    let there =
        || (0..gids).filter_map(|index| Some((index, context.gid(port, u32::from(index))?)));
    let fits = |kind: GidKind| match state.is_ethernet {
        true => kind == GidKind::RoceV2,
        false => kind == GidKind::InfiniBand,
    };
    let chosen = match wanted {
        Some(wanted) => there().find(|(index, _)| *index == wanted),
        // An address that was made of one of the Internet's, before one that is valid on one
        // network only.
        None => there()
            .filter(|(_, (_, kind))| fits(*kind))
            .min_by_key(|(index, (gid, _))| (is_link_local(gid), *index)),
    };
    let device = || context.name().to_owned();
    chosen.map(|(index, (gid, _))| (index, gid)).ok_or_else(|| match wanted {
        Some(index) => VerbsError::NoGid { device: device(), index },
        None => VerbsError::NoUsableGid { device: device() },
    })
}

/// Whether an address is of the kind that every interface makes up for itself.
fn is_link_local(gid: &[u8; 16]) -> bool {
    gid[0] == 0xfe && gid[1] & 0xc0 == 0x80
}
