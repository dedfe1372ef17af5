//! A workload: data-parallel training with parameter servers (Li et al., "Scaling Distributed Machine Learning
//! with the Parameter Server", OSDI 2014), all workers in step.
//!
//! ```text
//!   worker 0  compute ─► push a shard to each server ─┐                        ┌─► all shards are here: once more
//!   worker 1  compute ─► push a shard to each server ─┤                        ├─► all shards are here: once more
//!                                                     └─► server: has those of │
//!                                                         all workers ─► sends its shard to each worker
//! ```
//!
//! Every push of a round ends at the servers' links at one time, an incast; every pull begins there. So a round takes
//! as long as the workers' bytes take through one server's link, twice: more servers are quicker.

use fabric::extend::{HostList, Job, Plan, Refusal, Scene, Setting, Traffic, WorkloadKind};
use rdma::Span;

const SERVERS: HostList =
    HostList::new("servers", "Who keeps the parameters, a shard each. All other hosts work.");
const MODEL: Setting = Setting::new(
    "model_bytes",
    1..=1 << 40,
    10_000_000,
    "All parameters: what each worker pushes and pulls in a round.",
);
const ROUNDS: Setting =
    Setting::new("rounds", 1..=100_000, 1, "How often workers compute, push and pull.");
const COMPUTE: Setting =
    Setting::new("compute_us", 0..=60_000_000, 0, "How long a worker computes before it pushes.");

/// What is registered.
pub static PARAMETER_SERVER: WorkloadKind = WorkloadKind::new(
    "parameter-server",
    "Workers compute, push what they have learnt to servers, and pull what all have learnt.",
    parameter_server,
)
.with_settings(&[MODEL, ROUNDS, COMPUTE])
.with_hosts(&[SERVERS]);

/// The longest message of RDMA.
const MESSAGE_BYTES_MAX: u64 = 1 << 31;

fn parameter_server(scene: &mut Scene<'_>) -> Result<Traffic, Refusal> {
    let servers = scene.hosts_of(&SERVERS).to_vec();
    let workers: Vec<u32> =
        (0..scene.host_count()).filter(|host| !servers.contains(host)).collect();
    if servers.is_empty() || workers.is_empty() {
        let message = format!("{} servers, and {} workers", servers.len(), workers.len());
        return Err(Refusal::of(SERVERS.key(), message).hint("name some of the hosts, and not all"));
    }
    let shard = scene.get(&MODEL).div_ceil(servers.len() as u64);
    if shard > MESSAGE_BYTES_MAX {
        let message = format!("a shard of {shard} bytes is longer than a message");
        return Err(Refusal::of(MODEL.key(), message).hint("name more servers, or a smaller model"));
    }
    let name = format!("parameter server, {} workers, {} servers", workers.len(), servers.len());
    let compute = Span::from_us(scene.get(&COMPUTE));
    // Ranks: first the servers, then the workers.
    let (first, ranks) = (servers.len() as u32, (servers.len() + workers.len()) as u32);
    let mut plan = Plan::new(ranks);
    let computed: Vec<_> = (first..ranks).map(|worker| plan.calc(worker, 0, compute)).collect();
    for server in 0..first {
        let mut pushed = Vec::new();
        for (worker, computed) in (first..ranks).zip(&computed) {
            let (push, has_come) = plan.message((worker, server), 0, shard as u32);
            plan.requires(push, *computed);
            pushed.push(has_come);
        }
        let Some(all) = plan.all(server, &pushed) else { continue };
        for worker in first..ranks {
            let (pull, _) = plan.message((server, worker), 0, shard as u32);
            plan.requires(pull, all);
        }
    }
    let hosts = [servers, workers].concat();
    let mut job = Job::new(name, plan.finish()?, hosts);
    // A rank does its part once more when it has all that it waits for.
    job.repeat = scene.get(&ROUNDS) as u32;
    Ok(Traffic::Job(job))
}
