//! Operations on values that are graphs of objects.

use weft_object::{Frozen, Types, Wire};
use weft_protocol::Version;

use super::Client;
use crate::error::ClientError;
use crate::graph::{GraphError, GraphLookup};

impl Client {
    /// Makes a graph the object of `key`, with the types that it may be made of. Returns the object's version.
    ///
    /// Nothing of it is encoded: its bytes are copied into the request, as those of a [`put`](Self::put) are.
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
    /// use weft_object::{Graph, Link, Text, Types, Wire};
    /// use weft_transport::{Memory, MemoryConfig, Purpose};
    ///
    /// #[derive(Wire, Clone, Copy)]
    /// #[repr(C)]
    /// struct Person {
    ///     name: Text,
    ///     friend: Option<Link<Person>>,
    /// }
    ///
    /// let types = Types::new().with::<Person>();
    /// let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).expect("1 MiB can be had");
    /// let graph = Graph::build(&memory, Purpose::Send, &types, |graph| {
    ///     let name = graph.text("Ada")?;
    ///     let ada = graph.alloc(Person { name, friend: None })?;
    ///     let name = graph.text("Charles Babbage")?;
    ///     graph.alloc(Person { name, friend: Some(ada.link()) })
    /// })
    /// .expect("1 MiB suffices");
    /// client.put_graph("charles", &graph).await?;
    ///
    /// let found = client.get_graph::<Person>("charles", &types).await?;
    /// let charles = found.into_object().expect("it has just been put");
    /// let friend = charles.view().get(charles.root().friend.expect("he has one"));
    /// assert_eq!(charles.view().text(&friend.name), "Ada");
    /// # Ok::<(), weft_client::GraphError>(())
    /// # })?;
    /// # Ok::<(), weft_client::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// See [`put`](Self::put).
    pub async fn put_graph<R: Wire>(
        &self,
        key: impl AsRef<[u8]>,
        graph: &Frozen<R>,
    ) -> Result<Version, ClientError> {
        self.put(key, graph.to_value()).await
    }

    /// The graph of `key`, made of some of these `types`, in the buffer that it was received into: checked, and not decoded.
    ///
    /// # Errors
    /// [`GraphError::NoGraph`] if the object is none, or of types of other layouts, [`GraphError::OtherRoot`] if its root is none of `R`; else see
    /// [`get`](Self::get).
    pub async fn get_graph<R: Wire>(
        &self,
        key: impl AsRef<[u8]>,
        types: &Types,
    ) -> Result<GraphLookup<R>, GraphError> {
        GraphLookup::of(self.get(key).await?, types)
    }
}
