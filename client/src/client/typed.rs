//! Operations on values that are a program's types.

use std::time::Duration;

use weft_protocol::Version;

use super::Client;
use crate::object::Compared;
use crate::typed::{ReadTyped, TypedError, TypedLookup, WriteTyped, archive};

impl Client {
    /// Makes `value`, archived by rkyv, the object of `key`. Returns the object's version.
    ///
    /// It is archived into a buffer of its own, and copied from there into the request, as the bytes of a [`put`](Self::put)
    /// are: a request's length is reserved before it is written, and only archiving tells it. A value whose pointers follow one another more than 510 deep is taken, and no
    /// [`get_as`](Self::get_as) reads it.
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
    /// use rkyv::{Archive, Serialize};
    /// use weft_client::{Typed, TypedError};
    ///
    /// #[derive(Archive, Serialize)]
    /// struct Cloth {
    ///     pattern: String,
    ///     threads: Vec<u32>,
    /// }
    ///
    /// impl Typed for Cloth {
    ///     const NAME: &'static str = "mill.Cloth/1";
    /// }
    ///
    /// let cloth = Cloth { pattern: "twill".to_owned(), threads: vec![3, 1, 2] };
    /// client.put_as("cloth", &cloth).await?;
    ///
    /// let cloth = client.get_as::<Cloth>("cloth").await?.into_object().expect("it has just been put");
    /// assert_eq!(cloth.pattern, "twill");
    /// assert_eq!(cloth.threads.iter().map(|count| count.to_native()).sum::<u32>(), 6);
    ///
    /// client.put("cloth", "a rag").await?;
    /// let error = client.get_as::<Cloth>("cloth").await.expect_err("these are no Cloth's bytes");
    /// assert!(matches!(error, TypedError::Untyped { expected: "mill.Cloth/1", .. }));
    /// # Ok::<(), weft_client::TypedError>(())
    /// # })?;
    /// # Ok::<(), weft_client::TypedError>(())
    /// ```
    ///
    /// # Errors
    /// [`TypedError::Archive`] if the value cannot be archived; else see [`put`](Self::put).
    pub async fn put_as<T: WriteTyped>(
        &self,
        key: impl AsRef<[u8]>,
        value: &T,
    ) -> Result<Version, TypedError> {
        Ok(self.put(key, archive(value)?).await?)
    }

    /// The same, for an object that ceases to be after `lifetime`, by this machine's clock.
    ///
    /// # Errors
    /// See [`put_as`](Self::put_as).
    pub async fn put_as_expiring<T: WriteTyped>(
        &self,
        key: impl AsRef<[u8]>,
        value: &T,
        lifetime: Duration,
    ) -> Result<Version, TypedError> {
        Ok(self.put_expiring(key, archive(value)?, lifetime).await?)
    }

    /// The value of `key`, in the buffer that it was received into: checked, and not decoded.
    ///
    /// # Errors
    /// [`TypedError::Untyped`] and [`TypedError::OtherType`] if the object is none of a `T`, [`TypedError::Malformed`] if its
    /// bytes are not what they say; else see [`get`](Self::get).
    pub async fn get_as<T: ReadTyped>(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<TypedLookup<T>, TypedError> {
        TypedLookup::of(self.get(key).await?)
    }

    /// Makes `value` the object of `key` if the object that is there, of whatever type, has the version `expected`;
    /// [`Version::NONE`] is that of no object. The new object ceases to be after `lifetime`, if that is given.
    ///
    /// # Errors
    /// See [`put_as`](Self::put_as). That the object is another one is no error.
    pub async fn compare_and_set_as<T: WriteTyped>(
        &self,
        key: impl AsRef<[u8]>,
        expected: Version,
        value: &T,
        lifetime: Option<Duration>,
    ) -> Result<Compared, TypedError> {
        Ok(self.compare_and_set(key, expected, archive(value)?, lifetime).await?)
    }
}
