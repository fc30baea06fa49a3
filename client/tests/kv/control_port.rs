//! A control port that answers what a test has it answer, and remembers what it was asked.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use futures_util::{Stream, StreamExt, stream};
use tokio::runtime;
use tokio::sync::oneshot;
use tonic::metadata::MetadataValue;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use weft_client::ErrorCode;
use weft_protocol::control::ERROR_CODE;
use weft_protocol::control::v1::control_server::{Control, ControlServer};
use weft_protocol::control::v1::*;

/// What is answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) status: StatusResponse,
    pub(crate) workers: Vec<Worker>,
    /// Refuses everything.
    pub(crate) refusal: Option<(Code, ErrorCode, &'static str)>,
    /// What watchers of each version are told, before the stream ends with an error.
    pub(crate) updates: Vec<(u64, Vec<MapUpdate>)>,
}

/// The port. It closes when this is dropped.
pub(crate) struct ControlPort {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct Scripted {
    script: Script,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ControlPort {
    pub(crate) fn start(script: Script) -> Self {
        let asked = Arc::default();
        let service = Scripted { script, asked: Arc::clone(&asked) };
        let (stop, stopped) = oneshot::channel();
        let (told, address) = std::sync::mpsc::channel::<SocketAddr>();
        let thread = std::thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
                told.send(incoming.local_addr().unwrap()).unwrap();
                let served = Server::builder()
                    .add_service(ControlServer::new(service))
                    .serve_with_incoming(incoming);
                tokio::select! {
                    served = served => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        let address = address.recv().unwrap().to_string();
        Self { address, asked, stop: Some(stop), thread: Some(thread) }
    }

    /// What it was asked since the last look.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl Drop for ControlPort {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Scripted {
    fn ask(&self, what: String) -> Result<(), Status> {
        self.asked.lock().unwrap().push(what);
        match self.script.refusal {
            None => Ok(()),
            Some((code, ours, message)) => Err(refusal(code, ours, message)),
        }
    }
}

fn refusal(code: Code, ours: ErrorCode, message: &str) -> Status {
    let mut status = Status::new(code, message);
    status.metadata_mut().insert(ERROR_CODE, MetadataValue::from(ours.number()));
    status
}

#[tonic::async_trait]
impl Control for Scripted {
    async fn join(&self, _request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        Err(Status::unimplemented("kv is no node"))
    }

    async fn leave(
        &self,
        request: Request<LeaveRequest>,
    ) -> Result<Response<LeaveResponse>, Status> {
        let node = request.into_inner().node;
        self.ask(format!("leave {node}"))?;
        let mut members = self.script.status.nodes.iter().filter_map(|node| node.member);
        let has_left = !members.any(|member| member.node == node);
        Ok(Response::new(LeaveResponse { map_version: 43, has_left }))
    }

    async fn stay(&self, request: Request<StayRequest>) -> Result<Response<StayResponse>, Status> {
        self.ask(format!("stay {}", request.into_inner().node))?;
        Ok(Response::new(StayResponse { map_version: 44 }))
    }

    async fn status(
        &self,
        _request: Request<StatusRequest>,
    ) -> Result<Response<StatusResponse>, Status> {
        self.ask("status".to_owned())?;
        Ok(Response::new(self.script.status.clone()))
    }

    type WatchMapStream = Pin<Box<dyn Stream<Item = Result<MapUpdate, Status>> + Send>>;

    async fn watch_map(
        &self,
        request: Request<WatchMapRequest>,
    ) -> Result<Response<Self::WatchMapStream>, Status> {
        let known = request.into_inner().known_version;
        self.ask(format!("watch {known}"))?;
        let updates = self.script.updates.iter().find(|(version, _)| *version == known);
        let end = match updates {
            Some(_) => refusal(Code::Unavailable, ErrorCode::ShuttingDown, "going down"),
            None => refusal(Code::Aborted, ErrorCode::ChangedMeanwhile, "not known here"),
        };
        let updates = updates.map(|(_, updates)| updates.clone()).unwrap_or_default();
        let updates = stream::iter(updates.into_iter().map(Ok));
        Ok(Response::new(Box::pin(updates.chain(stream::iter([Err(end)])))))
    }

    async fn list_tables(
        &self,
        _request: Request<ListTablesRequest>,
    ) -> Result<Response<ListTablesResponse>, Status> {
        Err(Status::unimplemented("kv asks nodes' data ports for tables"))
    }

    async fn create_table(
        &self,
        _request: Request<CreateTableRequest>,
    ) -> Result<Response<CreateTableResponse>, Status> {
        Err(Status::unimplemented("kv asks nodes' data ports for tables"))
    }

    async fn alter_table(
        &self,
        _request: Request<AlterTableRequest>,
    ) -> Result<Response<AlterTableResponse>, Status> {
        Err(Status::unimplemented("kv asks nodes' data ports for tables"))
    }

    async fn drop_table(
        &self,
        _request: Request<DropTableRequest>,
    ) -> Result<Response<DropTableResponse>, Status> {
        Err(Status::unimplemented("kv asks nodes' data ports for tables"))
    }

    async fn accept_loss(
        &self,
        request: Request<AcceptLossRequest>,
    ) -> Result<Response<AcceptLossResponse>, Status> {
        let AcceptLossRequest { request, partitions, give_up } = request.into_inner();
        assert_ne!(request, 0, "it would be another one in each attempt");
        self.ask(format!("accept {partitions:?} {give_up}"))?;
        let partitions = if partitions.is_empty() { vec![2] } else { partitions };
        Ok(Response::new(AcceptLossResponse { partitions, map_version: 45 }))
    }

    async fn list_workers(
        &self,
        _request: Request<ListWorkersRequest>,
    ) -> Result<Response<ListWorkersResponse>, Status> {
        self.ask("workers".to_owned())?;
        Ok(Response::new(ListWorkersResponse { workers: self.script.workers.clone() }))
    }
}
