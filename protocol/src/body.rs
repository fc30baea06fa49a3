//! Everything that is sent, as the transport takes it.

use weft_transport::Body;

use crate::operation::delete::{Delete, DeleteReply};
use crate::operation::exists::{Exists, ExistsReply};
use crate::operation::get::{Get, GetFoundHead, GetReply};
use crate::operation::map::{Map, MapReply};
use crate::operation::multi_delete::MultiDelete;
use crate::operation::multi_get::MultiGet;
use crate::operation::multi_put::MultiPut;
use crate::operation::put::{Put, PutReply};
use crate::operation::stats::{Stats, StatsReply};
use crate::reply::ErrorReply;
use crate::request::Request;

macro_rules! bodies {
    ($($message:ty),* $(,)?) => {$(
        impl Body for $message {
            #[inline]
            fn len(&self) -> usize {
                self.encoded_len()
            }

            #[inline]
            fn write(self, buffer: &mut [u8]) {
                self.encode(buffer);
            }
        }

        impl Body for &$message {
            #[inline]
            fn len(&self) -> usize {
                self.encoded_len()
            }

            #[inline]
            fn write(self, buffer: &mut [u8]) {
                self.encode(buffer);
            }
        }
    )*};
}

bodies!(
    Request<'_>,
    Get<'_>,
    Put<'_>,
    Delete<'_>,
    Exists<'_>,
    MultiGet<'_>,
    MultiPut<'_>,
    MultiDelete<'_>,
    Stats,
    Map,
    GetReply<'_>,
    GetFoundHead,
    PutReply,
    DeleteReply,
    ExistsReply,
    StatsReply<'_>,
    MapReply,
    ErrorReply<'_>,
);
