//! Many puts, of which some may be too long for one request.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use weft_protocol::{Key, LimitError, Pair, UploadEffect, Value, Version};
use weft_transport::Time;

use super::{Multi, MultiOutcome, run};
use crate::core::Core;
use crate::operation::multi_put::AskMultiPut;
use crate::operation::put::AskPut;
use crate::table::Table;
use crate::upload::{Start, Upload};

/// A key, its value, and when the object ceases to be.
type Object<'a> = (&'a [u8], &'a [u8], Option<u64>);

/// Some of the objects, one after the other.
enum Stretch<'a> {
    /// With their positions, those that fit requests, or are refused.
    Short(Vec<(usize, Result<Pair<'a>, LimitError>)>),
    /// One that is uploaded.
    Long(usize, Object<'a>),
}

/// Puts all of `objects`. One that is too long for a request comes after what is before it in the list and before what is
/// behind, so that of several with one key the last one stays.
pub(crate) fn put_all<'a>(
    core: Arc<Core>,
    table: Table,
    objects: impl ExactSizeIterator<Item = Object<'a>>,
) -> Multi<'a, Version> {
    let (count, deadline) = (objects.len(), core.deadline());
    let mut stretches = Vec::new();
    let mut short = Vec::with_capacity(count);
    for (position, object) in objects.enumerate() {
        match pair(&object) {
            Err(LimitError::RequestValueTooLarge { .. }) => {
                stretches.push(Stretch::Short(std::mem::take(&mut short)));
                stretches.push(Stretch::Long(position, object));
            }
            pair => short.push((position, pair)),
        }
    }
    stretches.push(Stretch::Short(short));
    let outcomes = stream::iter(stretches).map(move |stretch| {
        let core = Arc::clone(&core);
        match stretch {
            Stretch::Short(pairs) => {
                run::<AskMultiPut<'a>>(core, table, pairs.into_iter(), deadline).left_stream()
            }
            Stretch::Long(position, object) => {
                stream::once(put_one(core, table, position, object, deadline)).right_stream()
            }
        }
    });
    Multi::new(outcomes.flatten(), count)
}

async fn put_one(
    core: Arc<Core>,
    table: Table,
    position: usize,
    (key, bytes, expires_at_ms): Object<'_>,
    deadline: Time,
) -> MultiOutcome<Version> {
    let key = Key::new(key).map_err(|error| (position, error.into()))?;
    let upload = Upload { key, start: Start::NONE, bytes, expires_at_ms, keeps_expiry: false };
    let put = core.upload::<AskPut<'_>>(table, upload, UploadEffect::Put, deadline).await;
    put.map(|version| (position, version)).map_err(|error| (position, error))
}

fn pair<'a>(&(key, value, expires_at_ms): &Object<'a>) -> Result<Pair<'a>, LimitError> {
    Ok(Pair { key: Key::new(key)?, value: Value::new(value)?, expires_at_ms })
}
