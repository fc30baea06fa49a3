//! Operations on fields of records.

use std::time::Duration;

use weft_protocol::{FieldChange, Key, Keys, LimitError, List, Version};

use super::Client;
use crate::error::ClientError;
use crate::object::FieldsLookup;
use crate::operation::get_fields::AskGetFields;
use crate::operation::put_fields::AskPutFields;

impl Client {
    /// Fields of the record that `key` holds: at most 1,024, by their names.
    ///
    /// ```
    /// # use weft_server::{config::{Config, Host, HttpAddress, Settings}, node::Node};
    /// # let settings = Settings {
    /// #     listen: Some("127.0.0.1:0".parse().unwrap()),
    /// #     http: Some(HttpAddress::Off),
    /// #     control: Some(HttpAddress::Off),
    /// #     ..Settings::default()
    /// # };
    /// # let node = Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap();
    /// # let address = node.address().to_string();
    /// # let client = weft_client::Client::connect_blocking(
    /// #     weft_client::ClientConfig::new([address]))?;
    /// # client.block_on(async {
    /// use weft_client::{FieldsLookup, Record};
    ///
    /// client.put_fields("cloth", &[("warp", "wool"), ("weft", "silk")], None).await?;
    /// client.put_fields("cloth", &[("weft", "gold")], None).await?;
    ///
    /// let FieldsLookup::Found(fields) = client.get_fields("cloth", &["weft", "reed"]).await? else {
    ///     panic!("it has just been put")
    /// };
    /// assert_eq!((fields.get(0), fields.get(1)), (Some(&b"gold"[..]), None));
    ///
    /// // The record is a value like any other.
    /// let object = client.get("cloth").await?.into_object().expect("it is there");
    /// let record = Record::parse(&object).expect("fields make a record");
    /// assert_eq!(record.get(b"warp"), Some(&b"wool"[..]));
    /// # Ok::<(), weft_client::ClientError>(())
    /// # })?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// [`NotARecord`](weft_protocol::ErrorCode::NotARecord), [`TooManyFields`](weft_protocol::ErrorCode::TooManyFields);
    /// else see [`ClientError`].
    pub async fn get_fields<N: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        names: &[N],
    ) -> Result<FieldsLookup, ClientError> {
        let key = Key::new(key.as_ref())?;
        let names =
            names.iter().map(|name| Key::new(name.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let names = whole(Keys::fitting(&names), names.len())?;
        self.core.ask(self.table, AskGetFields { key, names }).await
    }

    /// Writes fields of the record that `key` holds, all or none; others stay. If it has no object it gets one, which
    /// ceases to be after `lifetime`, if that is given; one that is there keeps the expiry that it has.
    ///
    /// # Errors
    /// [`NotARecord`](weft_protocol::ErrorCode::NotARecord), [`TooManyFields`](weft_protocol::ErrorCode::TooManyFields) and
    /// [`ValueTooLarge`](weft_protocol::ErrorCode::ValueTooLarge), after which nothing has changed; else see
    /// [`put`](Self::put).
    pub async fn put_fields<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[(N, V)],
        lifetime: Option<Duration>,
    ) -> Result<Version, ClientError> {
        let changes = fields
            .iter()
            .map(|(name, value)| FieldChange::put(name.as_ref(), value.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        self.change_fields(key, &changes, lifetime).await
    }

    /// Writes and removes fields of the record that `key` holds, all or none. Of several changes of one field the last
    /// counts. `lifetime` is as for [`put_fields`](Self::put_fields).
    ///
    /// # Errors
    /// See [`put_fields`](Self::put_fields). A field that is not there is removed without an error.
    pub async fn change_fields(
        &self,
        key: impl AsRef<[u8]>,
        changes: &[FieldChange<'_>],
        lifetime: Option<Duration>,
    ) -> Result<Version, ClientError> {
        let key = Key::new(key.as_ref())?;
        let changes = whole(List::fitting(changes), changes.len())?;
        self.core
            .ask(self.table, AskPutFields { key, changes, expires_at_ms: self.expiry(lifetime) })
            .await
    }
}

/// The list, if it holds all.
fn whole<'a, T>(
    (list, rest): (List<'a, T>, &[T]),
    count: usize,
) -> Result<List<'a, T>, LimitError> {
    if rest.is_empty() { Ok(list) } else { Err(LimitError::TooManyFields { count }) }
}
