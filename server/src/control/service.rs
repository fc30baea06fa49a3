//! The calls of the control port.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use weft_protocol::control::v1::control_server::Control;
use weft_protocol::control::v1::{
    AcceptLossRequest, AcceptLossResponse, AlterTableRequest, AlterTableResponse,
    CreateTableRequest, CreateTableResponse, DropTableRequest, DropTableResponse, JoinRequest,
    JoinResponse, LeaveRequest, LeaveResponse, ListTablesRequest, ListTablesResponse,
    ListWorkersRequest, ListWorkersResponse, MapUpdate, StatusRequest, StatusResponse, StayRequest,
    StayResponse, WatchMapRequest,
};
use weft_transport::NodeId;

use super::map_watch::Told;
use super::proposing::proposal_id;
use super::refusal::Subject;
use super::table;
use crate::coordinator::{Command, Outcome, ProposalId};
use crate::handler::NodeHandler;

/// What answers calls.
#[derive(Debug, Clone)]
pub(super) struct Service {
    node: Arc<NodeHandler>,
    told: Arc<Told>,
    is_stopping: watch::Receiver<bool>,
}

impl Service {
    pub(super) fn new(node: Arc<NodeHandler>, is_stopping: watch::Receiver<bool>) -> Service {
        Service { node, told: Arc::default(), is_stopping }
    }

    pub(super) fn node(&self) -> &NodeHandler {
        &self.node
    }

    pub(super) fn told(&self) -> &Told {
        &self.told
    }

    pub(super) fn is_stopping(&self) -> watch::Receiver<bool> {
        self.is_stopping.clone()
    }

    /// Does with a node what can as well be done twice. Returns how the cluster is after that.
    async fn change_node(&self, command: Command) -> Result<StatusResponse, Status> {
        self.propose(Subject::Node, ProposalId::NONE, command).await?;
        self.cluster_status().await
    }
}

#[tonic::async_trait]
impl Control for Service {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        self.admit(request.into_inner()).await.map(Response::new)
    }

    async fn leave(
        &self,
        request: Request<LeaveRequest>,
    ) -> Result<Response<LeaveResponse>, Status> {
        let node = NodeId(request.into_inner().node);
        let StatusResponse { map_version, nodes, .. } =
            self.change_node(Command::Leave { node }).await?;
        let mut members = nodes.iter().filter_map(|node| node.member);
        let has_left = !members.any(|member| member.node == node.0);
        Ok(Response::new(LeaveResponse { map_version, has_left }))
    }

    async fn stay(&self, request: Request<StayRequest>) -> Result<Response<StayResponse>, Status> {
        let node = NodeId(request.into_inner().node);
        let map_version = self.change_node(Command::Stay { node }).await?.map_version;
        Ok(Response::new(StayResponse { map_version }))
    }

    async fn status(
        &self,
        _request: Request<StatusRequest>,
    ) -> Result<Response<StatusResponse>, Status> {
        self.cluster_status().await.map(Response::new)
    }

    type WatchMapStream = Pin<Box<dyn Stream<Item = Result<MapUpdate, Status>> + Send>>;

    async fn watch_map(
        &self,
        request: Request<WatchMapRequest>,
    ) -> Result<Response<Self::WatchMapStream>, Status> {
        let WatchMapRequest { known_version } = request.into_inner();
        Ok(Response::new(Box::pin(Service::watch_map(self, known_version))))
    }

    async fn list_tables(
        &self,
        _request: Request<ListTablesRequest>,
    ) -> Result<Response<ListTablesResponse>, Status> {
        self.tables().await.map(Response::new)
    }

    async fn create_table(
        &self,
        request: Request<CreateTableRequest>,
    ) -> Result<Response<CreateTableResponse>, Status> {
        let CreateTableRequest { request, name, options } = request.into_inner();
        let options = table::options(options)?;
        table::check(&name, options)?;
        let command = Command::CreateTable { name: name.clone(), options };
        let done = self.propose(Subject::Table, proposal_id(request, 0), command).await?;
        let ListTablesResponse { catalog_version, tables } = self.tables().await?;
        let table = match done {
            Outcome::TableCreated { id } => {
                // It may be gone again.
                let found = tables.into_iter().find(|table| table.table == u32::from(id.0));
                found.or_else(|| Some(table::message(id, &name, options)))
            }
            _ => tables.into_iter().find(|table| table.name == name),
        };
        Ok(Response::new(CreateTableResponse { table, catalog_version }))
    }

    async fn alter_table(
        &self,
        request: Request<AlterTableRequest>,
    ) -> Result<Response<AlterTableResponse>, Status> {
        let request = request.into_inner();
        let change = table::alteration(&request)?;
        let AlterTableRequest { request, name, .. } = request;
        let command = Command::AlterTable { name: name.clone(), change };
        self.propose(Subject::Table, proposal_id(request, 0), command).await?;
        let ListTablesResponse { catalog_version, tables } = self.tables().await?;
        let table = tables.into_iter().find(|table| table.name == name);
        Ok(Response::new(AlterTableResponse { table, catalog_version }))
    }

    async fn drop_table(
        &self,
        request: Request<DropTableRequest>,
    ) -> Result<Response<DropTableResponse>, Status> {
        let DropTableRequest { request, name } = request.into_inner();
        let command = Command::DropTable { name };
        self.propose(Subject::Table, proposal_id(request, 0), command).await?;
        let catalog_version = self.tables().await?.catalog_version;
        Ok(Response::new(DropTableResponse { catalog_version }))
    }

    async fn accept_loss(
        &self,
        request: Request<AcceptLossRequest>,
    ) -> Result<Response<AcceptLossResponse>, Status> {
        self.accept_losses(request.into_inner()).await.map(Response::new)
    }

    async fn list_workers(
        &self,
        _request: Request<ListWorkersRequest>,
    ) -> Result<Response<ListWorkersResponse>, Status> {
        self.workers().await.map(Response::new)
    }
}
