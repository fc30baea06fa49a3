//! `netbench idle`: what a node costs that is connected and hears nothing.

use std::time::Duration;

use serde_json::{Value, json};
use weft_transport::{Clock, PollPolicy};

use crate::affinity::{self, Placement, PlacementArgs};
use crate::args::{Benchmark, Plan};
use crate::bounds::{self, fraction, whole, within};
use crate::links::{LinkArgs, Links};

use crate::raw;
use crate::report::rounded;
use crate::serve::Service;
use crate::server_process::ServerProcess;
use crate::shape::Shape;
use crate::table::{median, table};
use crate::weft::{self, Clients};

#[derive(clap::Args)]
pub(crate) struct IdleOptions {
    #[command(flatten)]
    links: LinkArgs,
    /// Connections of the quiet node
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    connections: usize,
    /// How an idle transport waits: busy, adaptive or park
    #[arg(
        long,
        value_name = "POLICY,…",
        value_delimiter = ',',
        default_value = "busy,adaptive,park"
    )]
    poll: Vec<PollPolicy>,
    /// Measured seconds of quiet
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = fraction)]
    seconds: f64,
    /// Seconds between the last message and the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = fraction)]
    warm_up: f64,
    /// Runs of which the median is taken
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole)]
    runs: usize,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A measurement of quiet nodes, checked.
pub(crate) struct IdlePlan {
    links: Links,
    connections: usize,
    polls: Vec<PollPolicy>,
    window: Duration,
    warm_up: Duration,
    runs: usize,
    placement: Placement,
    json: bool,
}

impl IdleOptions {
    pub(crate) fn into_plan(self) -> Result<IdlePlan, String> {
        within("--connections", self.connections, 1, bounds::LANES_MAX)?;
        Ok(IdlePlan {
            links: self.links.into_links()?,
            connections: self.connections,
            polls: self.poll,
            window: bounds::window(self.seconds)?,
            warm_up: bounds::warm_up(self.warm_up)?,
            runs: bounds::runs(self.runs)?,
            placement: self.placement.into_placement()?,
            json: self.json,
        })
    }
}

/// Share of a processor that each side uses, 1 being all of it.
#[derive(Clone, Copy)]
struct Use {
    server: f64,
    client: f64,
}

pub(crate) fn measure(plan: &IdlePlan) -> anyhow::Result<String> {
    affinity::pin(plan.placement.client())?;
    // The last one is of blocking sockets.
    let mut series: Vec<Vec<Use>> = vec![Vec::new(); plan.polls.len() + 1];
    for _ in 0..plan.runs {
        for (poll, series) in plan.polls.iter().zip(&mut series) {
            series.push(weft(&plan.one_run(*poll))?);
        }
        let sockets = series.last_mut().expect("there is one more than policies");
        sockets.push(blocking_sockets(&plan.one_run(PollPolicy::Park))?);
    }
    let medians: Vec<Use> = series
        .iter()
        .map(|series| Use {
            server: median(series.iter().map(|run| run.server)),
            client: median(series.iter().map(|run| run.client)),
        })
        .collect();
    Ok(if plan.json { json(plan, &medians) } else { text(plan, &medians) })
}

impl IdlePlan {
    fn one_run(&self, poll: PollPolicy) -> Plan {
        let shape =
            Shape { connections: self.connections, ..Shape::of_one(64, poll, self.links.clone()) };
        Plan::one_run(Benchmark::Latency, shape, self.warm_up, self.window, self.placement)
    }
}

/// A node whose connections have each carried a call, and its clients.
fn weft(plan: &Plan) -> anyhow::Result<Use> {
    let mut server = ServerProcess::start(plan, Service::WeftCalls)?;
    let clients = Clients::connect(server.address()?, &plan.shape)?;
    weft::calls::call_each(&clients, &plan.shape)?;
    quiet(plan, &mut server)
}

fn blocking_sockets(plan: &Plan) -> anyhow::Result<Use> {
    let mut server = ServerProcess::start(plan, Service::RawBlocking)?;
    let address = server.address()?;
    let connect = |_| raw::connect(address);
    let _streams = (0..plan.shape.connections).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
    quiet(plan, &mut server)
}

/// What both sides use while nothing happens.
fn quiet(plan: &Plan, server: &mut ServerProcess) -> anyhow::Result<Use> {
    let clock = Clock::system();
    std::thread::sleep(plan.warm_up);
    let (before, client, began) = (server.sample()?, affinity::cpu_time(), clock.now());
    std::thread::sleep(plan.window);
    let client = affinity::cpu_time().saturating_sub(client).as_secs_f64();
    let seconds = clock.now().since(began).as_secs_f64();
    let after = server.sample()?;
    Ok(Use { server: after.processors_since(&before), client: client / seconds })
}

fn names(plan: &IdlePlan) -> impl Iterator<Item = String> {
    plan.polls.iter().map(ToString::to_string).chain(["blocking sockets".to_owned()])
}

fn text(plan: &IdlePlan, medians: &[Use]) -> String {
    let head = format!(
        "idle over {}: connections {}; {}; median of {} runs of {} s; percent of a processor",
        plan.links.kind.name(),
        plan.connections,
        plan.placement,
        plan.runs,
        plan.window.as_secs_f64(),
    );
    let percent = |share: f64| format!("{:.3}", share * 100.0);
    let row = |(name, of): (String, &Use)| vec![name, percent(of.server), percent(of.client)];
    let rows: Vec<Vec<String>> = names(plan).zip(medians).map(row).collect();
    head + &table(&["poll", "node", "client"], &rows)
}

fn json(plan: &IdlePlan, medians: &[Use]) -> String {
    let percent = |share: f64| rounded(share * 100.0);
    let cases: Vec<Value> = names(plan)
        .zip(medians)
        .map(|(name, of)| {
            json!({ "poll": name, "node_percent": percent(of.server), "client_percent": percent(of.client) })
        })
        .collect();
    let (raw, cases) = cases.split_last().expect("blocking sockets come last");
    json!({
        "benchmark": "idle",
        "link": plan.links.kind.name(),
        "connections": plan.connections,
        "seconds": plan.window.as_secs_f64(),
        "runs": plan.runs,
        "server_cpu": plan.placement.server().map(|cpu| cpu.0),
        "client_cpu": plan.placement.client().map(|cpu| cpu.0),
        "cases": cases,
        "raw": raw,
    })
    .to_string()
}
