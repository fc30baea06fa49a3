//! What entries and snapshots both have: members, configurations, nodes, tables.

use std::time::Duration;

use weft_protocol::{
    Configuration, Durability, Eviction, Member, TableAlteration, TableClass, TableOptions,
};
use weft_transport::{Incarnation, NodeId};

use super::{CodecError, narrow, required};
use crate::coordinator::node::NodeDescription;
use crate::coordinator::partition::are_distinct;
use crate::coordinator::timing::Timing;
use crate::limits::REPLICAS_HELD_MAX;

/// A number of 128 bits.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Wide {
    #[prost(fixed64, tag = "1")]
    high: u64,
    #[prost(fixed64, tag = "2")]
    low: u64,
}

impl From<u128> for Wide {
    fn from(number: u128) -> Self {
        Self { high: (number >> 64) as u64, low: number as u64 }
    }
}

impl From<Wide> for u128 {
    fn from(wide: Wide) -> Self {
        Self::from(wide.high) << 64 | Self::from(wide.low)
    }
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct TimingMessage {
    #[prost(uint32, tag = "1")]
    heartbeat_ms: u32,
    #[prost(uint32, tag = "2")]
    lease_ms: u32,
}

impl From<Timing> for TimingMessage {
    fn from(timing: Timing) -> Self {
        let ms = |duration: Duration| duration.as_millis() as u32;
        Self { heartbeat_ms: ms(timing.heartbeat()), lease_ms: ms(timing.lease()) }
    }
}

impl TryFrom<TimingMessage> for Timing {
    type Error = CodecError;

    fn try_from(message: TimingMessage) -> Result<Self, CodecError> {
        let ms = |ms: u32| Duration::from_millis(ms.into());
        Self::new(ms(message.heartbeat_ms), ms(message.lease_ms))
            .map_err(|_| CodecError::Field { field: "timing" })
    }
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct MemberMessage {
    #[prost(uint64, tag = "1")]
    node: u64,
    #[prost(uint64, tag = "2")]
    incarnation: u64,
}

impl From<Member> for MemberMessage {
    fn from(member: Member) -> Self {
        Self { node: member.node.0, incarnation: member.incarnation.0 }
    }
}

impl From<MemberMessage> for Member {
    fn from(message: MemberMessage) -> Self {
        Self { node: NodeId(message.node), incarnation: Incarnation(message.incarnation) }
    }
}

pub(super) fn member(
    message: Option<MemberMessage>,
    field: &'static str,
) -> Result<Member, CodecError> {
    required(message, field).map(Into::into)
}

/// Members that may be those of a partition.
fn members(messages: Vec<MemberMessage>, field: &'static str) -> Result<Vec<Member>, CodecError> {
    if messages.len() > REPLICAS_HELD_MAX {
        return Err(CodecError::ListTooLong { field });
    }
    let members: Vec<Member> = messages.into_iter().map(Into::into).collect();
    if are_distinct(&members) { Ok(members) } else { Err(CodecError::Field { field }) }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ConfigurationMessage {
    #[prost(uint32, tag = "1")]
    epoch: u32,
    #[prost(message, optional, tag = "2")]
    primary: Option<MemberMessage>,
    #[prost(message, repeated, tag = "3")]
    members: Vec<MemberMessage>,
    #[prost(message, repeated, tag = "4")]
    learners: Vec<MemberMessage>,
    #[prost(uint32, tag = "5")]
    min_in_sync: u32,
    #[prost(bool, tag = "6")]
    is_lost: bool,
}

impl From<&Configuration> for ConfigurationMessage {
    fn from(configuration: &Configuration) -> Self {
        let Configuration { epoch, primary, members, learners, min_in_sync, is_lost } =
            configuration;
        Self {
            epoch: *epoch,
            primary: primary.map(Into::into),
            members: members.iter().copied().map(Into::into).collect(),
            learners: learners.iter().copied().map(Into::into).collect(),
            min_in_sync: u32::from(*min_in_sync),
            is_lost: *is_lost,
        }
    }
}

/// Checked for what is true of every configuration; whether it fits a state is for the state to say.
impl TryFrom<ConfigurationMessage> for Configuration {
    type Error = CodecError;

    fn try_from(message: ConfigurationMessage) -> Result<Self, CodecError> {
        let configuration = Self {
            epoch: message.epoch,
            primary: message.primary.map(Into::into),
            members: members(message.members, "members")?,
            learners: members(message.learners, "learners")?,
            min_in_sync: narrow(message.min_in_sync, "min_in_sync")?,
            is_lost: message.is_lost,
        };
        let refuse = |field| Err(CodecError::Field { field });
        if !(1..=Self::EPOCH_MAX).contains(&configuration.epoch) {
            return refuse("epoch");
        }
        if !(1..=TableOptions::REPLICAS_MAX).contains(&configuration.min_in_sync) {
            return refuse("min_in_sync");
        }
        if configuration.primary.is_some_and(|primary| !configuration.has_member(primary)) {
            return refuse("primary");
        }
        Ok(configuration)
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DescriptionMessage {
    #[prost(string, tag = "1")]
    data_address: String,
    #[prost(string, tag = "2")]
    control_address: String,
    #[prost(string, tag = "3")]
    zone: String,
    #[prost(uint64, tag = "4")]
    capacity_bytes: u64,
    #[prost(bool, tag = "5")]
    is_coordinator: bool,
    /// Of a node that wrote this down before there was the field it is not known, and it is taken for one that has a disk, as it was before.
    #[prost(bool, tag = "6")]
    is_diskless: bool,
}

impl From<&NodeDescription> for DescriptionMessage {
    fn from(description: &NodeDescription) -> Self {
        let NodeDescription {
            data_address,
            control_address,
            zone,
            capacity_bytes,
            is_coordinator,
            is_diskless,
        } = description;
        Self {
            data_address: data_address.clone(),
            control_address: control_address.clone(),
            zone: zone.clone(),
            capacity_bytes: *capacity_bytes,
            is_coordinator: *is_coordinator,
            is_diskless: *is_diskless,
        }
    }
}

impl From<DescriptionMessage> for NodeDescription {
    fn from(message: DescriptionMessage) -> Self {
        let DescriptionMessage {
            data_address,
            control_address,
            zone,
            capacity_bytes,
            is_coordinator,
            is_diskless,
        } = message;
        Self { data_address, control_address, zone, capacity_bytes, is_coordinator, is_diskless }
    }
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ClassMessage {
    #[prost(uint32, tag = "1")]
    replicas: u32,
    #[prost(enumeration = "DurabilityNumber", tag = "2")]
    durability: i32,
}

impl From<TableClass> for ClassMessage {
    fn from(class: TableClass) -> Self {
        let mut message = Self { replicas: u32::from(class.replicas), durability: 0 };
        message.set_durability(class.durability.into());
        message
    }
}

impl TryFrom<ClassMessage> for TableClass {
    type Error = CodecError;

    fn try_from(message: ClassMessage) -> Result<Self, CodecError> {
        let durability = durability(message.durability)?;
        Ok(Self { replicas: replicas(message.replicas)?, durability })
    }
}

fn replicas(number: u32) -> Result<u8, CodecError> {
    let replicas = narrow(number, "replicas")?;
    let is_one = (1..=TableOptions::REPLICAS_MAX).contains(&replicas);
    if is_one { Ok(replicas) } else { Err(CodecError::Field { field: "replicas" }) }
}

fn durability(number: i32) -> Result<Durability, CodecError> {
    let number = DurabilityNumber::try_from(number);
    number.map(Into::into).map_err(|_| CodecError::Field { field: "durability" })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum DurabilityNumber {
    Memory = 0,
    Disk = 1,
    Fsync = 2,
}

impl From<Durability> for DurabilityNumber {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Memory => Self::Memory,
            Durability::Disk => Self::Disk,
            Durability::Fsync => Self::Fsync,
        }
    }
}

impl From<DurabilityNumber> for Durability {
    fn from(number: DurabilityNumber) -> Self {
        match number {
            DurabilityNumber::Memory => Self::Memory,
            DurabilityNumber::Disk => Self::Disk,
            DurabilityNumber::Fsync => Self::Fsync,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum EvictionNumber {
    None = 0,
    LeastRecentlyUsed = 1,
    SoonestExpiry = 2,
}

impl From<Eviction> for EvictionNumber {
    fn from(eviction: Eviction) -> Self {
        match eviction {
            Eviction::None => Self::None,
            Eviction::LeastRecentlyUsed => Self::LeastRecentlyUsed,
            Eviction::SoonestExpiry => Self::SoonestExpiry,
        }
    }
}

fn eviction(number: i32) -> Result<Eviction, CodecError> {
    match EvictionNumber::try_from(number) {
        Ok(EvictionNumber::None) => Ok(Eviction::None),
        Ok(EvictionNumber::LeastRecentlyUsed) => Ok(Eviction::LeastRecentlyUsed),
        Ok(EvictionNumber::SoonestExpiry) => Ok(Eviction::SoonestExpiry),
        Err(_) => Err(CodecError::Field { field: "eviction" }),
    }
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct OptionsMessage {
    #[prost(bool, tag = "1")]
    ordered: bool,
    #[prost(uint64, optional, tag = "2")]
    quota_bytes: Option<u64>,
    #[prost(enumeration = "EvictionNumber", tag = "3")]
    eviction: i32,
    #[prost(message, optional, tag = "4")]
    class: Option<ClassMessage>,
}

impl From<TableOptions> for OptionsMessage {
    fn from(options: TableOptions) -> Self {
        let TableOptions { ordered, quota_bytes, eviction, replicas: _, durability: _ } = options;
        let class = Some(options.class().into());
        let mut message = Self { ordered, quota_bytes, eviction: 0, class };
        message.set_eviction(eviction.into());
        message
    }
}

impl TryFrom<OptionsMessage> for TableOptions {
    type Error = CodecError;

    fn try_from(message: OptionsMessage) -> Result<Self, CodecError> {
        let OptionsMessage { ordered, quota_bytes, eviction: number, class } = message;
        let TableClass { replicas, durability } = required(class, "class")?.try_into()?;
        Ok(Self { ordered, quota_bytes, eviction: eviction(number)?, replicas, durability })
    }
}

/// What is to be other: a quota of 0 takes it back.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct AlterationMessage {
    #[prost(uint64, optional, tag = "1")]
    quota_bytes: Option<u64>,
    #[prost(enumeration = "EvictionNumber", optional, tag = "2")]
    eviction: Option<i32>,
}

impl From<TableAlteration> for AlterationMessage {
    fn from(change: TableAlteration) -> Self {
        Self {
            quota_bytes: change.quota_bytes.map(|quota| quota.unwrap_or(0)),
            eviction: change.eviction.map(|eviction| EvictionNumber::from(eviction) as i32),
        }
    }
}

impl TryFrom<AlterationMessage> for TableAlteration {
    type Error = CodecError;

    fn try_from(message: AlterationMessage) -> Result<Self, CodecError> {
        let quota_bytes = message.quota_bytes.map(|quota| Some(quota).filter(|quota| *quota != 0));
        Ok(Self { quota_bytes, eviction: message.eviction.map(eviction).transpose()? })
    }
}
