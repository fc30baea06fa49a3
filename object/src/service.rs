//! Typed services: a trait with `#[service]` becomes a proxy for who calls and a dispatcher for who is called.
//!
//! What a call takes and gives are plain values, texts, slices, graphs, and services, which go by reference: the
//! idea of J-RPC (zero-copy typed remote calls), whose remote interfaces these are. Types, methods and their numbers are agreed on
//! once, when a service is imported; a call is sixteen bytes ahead of its arguments. `docs/services.md` draws every byte.
//!
//! ```
//! use std::sync::Arc;
//! use weft_object::service;
//! use weft_object::service::{Client as _, Services};
//! # use weft_transport::{Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, NodeId};
//! # fn endpoint(node: NodeId, services: &Services) -> Endpoint {
//! #     let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
//! #     Endpoint::start(EndpointConfig::new(node, Incarnation(1), memory), services.handler()).unwrap()
//! # }
//!
//! #[service]
//! trait Greeter {
//!     fn greet(&self, name: &str) -> String;
//! }
//!
//! struct Polite;
//!
//! impl Greeter for Polite {
//!     fn greet(&self, name: &str) -> String {
//!         format!("Good day, {name}")
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let services = Services::new();
//! services.export::<dyn Greeter>("greeter", Arc::new(Polite));
//! let server = endpoint(NodeId(1), &services);
//! let address = server.listen(([127, 0, 0, 1], 0).into())?;
//!
//! let services = Services::new();
//! let client = endpoint(NodeId::client(7), &services);
//! let deadline = client.clock().now() + std::time::Duration::from_secs(5);
//! let connection = client.block_on(client.connect(address, deadline))?;
//! let greeter = services.import_blocking::<dyn Greeter>(&connection, "greeter")?;
//! assert_eq!(greeter.blocking().greet("Ada")?, "Good day, Ada");
//! # Ok(())
//! # }
//! ```
//!
//! What no peer could call, or be sent, does not compile, and the message says what to do instead:
//! ```compile_fail
//! #[weft_object::service]
//! trait Counter { fn add(&mut self, amount: u64); }
//! ```
//! ```compile_fail
//! #[weft_object::service]
//! trait Names { async fn get(&self) -> String; }
//! ```
//! ```compile_fail
//! #[weft_object::service]
//! trait Names { fn get(&self) -> &str; }
//! ```
//! ```compile_fail
//! #[weft_object::service]
//! trait Watcher { fn added(&self, title: &str); }
//! #[weft_object::service]
//! trait Library { fn watch(&self, watcher: std::sync::Arc<dyn Watcher>); }
//! ```
//! Nor does what is no value that can travel:
//! ```compile_fail
//! #[weft_object::service]
//! trait Names { fn put(&self, name: String); }
//! ```
//! ```compile_fail
//! #[weft_object::service]
//! trait Sizes { fn get(&self) -> usize; }
//! ```
//! ```compile_fail,E0277
//! #[weft_object::service]
//! trait Names { fn get(&self) -> Vec<String>; }
//! ```
//! ```compile_fail,E0080
//! #[weft_object::service]
//! trait Links { fn get(&self) -> weft_object::Link<u64>; }
//! ```
//! With these mended they do:
//! ```
//! use weft_object::service;
//! #[service]
//! trait Watcher { fn added(&self, title: &str); }
//! #[service]
//! trait Library {
//!     fn add(&self, amount: u64);
//!     fn get(&self) -> String;
//!     fn watch(&self, watcher: WatcherClient);
//!     fn put(&self, name: &str);
//!     fn size(&self) -> u64;
//! }
//! ```

mod answer;
mod argument;
mod blob;
mod calls;
mod client;
mod disposal;
mod error;
mod exported;
mod frame;
mod graph;
mod import;
mod interface;
mod item;
mod negotiation;
mod passing;
mod received;
mod references;
mod remote;
mod returned;
mod services;
mod serving;
mod thread;
mod told;
mod unsent;
mod watch;
mod workers;

pub use answer::Answer;
pub use argument::{Argument, Maybe};
pub use blob::Blob;
pub use client::Client;
pub use error::{ImportError, Malformed, Refusal, ServiceError};
pub use exported::Exported;
pub use graph::{GraphRef, GraphReply};
pub use interface::{Contract, Description, Interface, Method};
pub use item::{Item, Plain, Reader, Writer};
pub use passing::{ByReference, Giving, Passing, Reference};
pub use remote::Remote;
pub use returned::{Fallible, Replied, Returned};
pub use services::{Services, ServicesConfig};
