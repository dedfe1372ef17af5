//! The project's own commands. `cargo xtask` alone lists them.

mod aarch64;
mod abi;
mod bench;
mod book;
mod ci;
mod crowd;
mod debootstrap;
mod demo;
mod dist;
mod distributions;
mod extensions;
mod interop;
mod lab;
mod labs;
mod median;
mod mistakes;
mod network;
mod pingmesh;
mod programs;
mod pyverbs;
mod routed;
mod speed;
mod storm;
mod strangers;
mod tally;
mod terminal;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};
use pico_args::Arguments;

const USAGE: &str = "\
cargo xtask <command>

  ci                            every check, as `make test` runs them; --only WORD: those stages
  tidy                          what the compiler does not check: rooms, circles, sizes, licences, links
       --circles              show the circles among the modules of each crate
           --arrows CRATE     with every arrow within those of CRATE
       --shrink               write what is left of them into the list
  dist                          build target/dist: bin/ferroce and lib/ferroce
  abi                           compare symbols with the committed lists, structures with headers; which libc is needed
  demo                          show the main job, and what tshark sees of it
  programs                      run perftest and the rdma-core examples, unmodified
           --full               every row of the matrix, not only the quick ones
           --filter TEXT        the rows whose command line contains TEXT
           --link LINK          over shm (as if not given), shm,icrc or udp
           --faults SPEC        with faults injected, such as loss=0.01,reorder=0.01
  labs                          the experiments of scenarios/lab/, each row once, and hard days
           --filter TEXT        those whose name contains TEXT
           --draws N            each row so often
           --times N            all of them so often
           --full               long forms of the hard days, a thousand programs among them
  book                          run the blocks of README and book that need what `dist` builds
           --long               those that take minutes, too
  extensions                    build, test and run examples/extensions, which is outside the workspace
  mistakes                      make each mistake of the book's chapter on debugging
  pingmesh                      four hosts in network namespaces, and one with a bad cable, as root
           --full               each fault at each host
           --draws N            all of them so often
  pyverbs                       run rdma-core's test suite against the list of what must pass
           -k PATTERN           the tests whose names match
           --link LINK          over shm (as if not given), shm,icrc or udp
           --bless              write the list anew
           --distribution NAME  another one of Debian's, such as trixie: its suite and its list, as root
  distributions                 the programs of other distributions, over our libraries, as root
           --full               every quick row of `programs`, and pyverbs, OpenMPI, UCX, libfabric, qperf and fio;
                                rdma-core's own test suite of each
           --suite NAME         another one of Debian's
  aarch64                       tests and programs of arm64, executed by qemu, as root
           --pairs              only perftest; or --room wire, transport or softnic: only its tests
  storm [--seeds N] [--seed S]  engines on a network that does its worst, checked at each step
        [--jobs J]              on so many threads
        [--trace] [--pcap FILE] every event and packet of seed S
        --link LINK [--seeds N] [--seed S]  NICs of this machine over shm, shm,icrc or udp
  crowd [--processes N] [--seed S]  processes all connected to each other, of which some stop or end
        [--link LINK]           over shm, shm,icrc or udp only
        [--rounds N]            after so many messages from each to each other
        [--ends N]              instead: N short programs, half of them killed, and what they leave
  strangers                     what another user of the host tries, as root
  routed                        two hosts with a router between them, as root: source ports, marks, MTU
           --filter TEXT        the cases whose name contains TEXT
  speed                         count the simulator's and the NIC's instructions, against the committed numbers
  interop                       our soft NIC against the Linux kernel's, in a virtual machine
           --filter TEXT        the cases whose command line contains TEXT
           --cmtime COUNT       only the time of connections within the kernel
  bench datapath [--rounds N]   our figures beside those of other programs, interleaved
        ucx [--rounds N]        UCX over Ferroce beside UCX over TCP, interleaved
        verbs [--rounds N]      `ferroce bench` beside perftest over Ferroce, interleaved
        connections [--rounds N]  what many connections and queue pairs cost
        lab [--rounds N]        latency, packets a second, factor and rest of labs of 2 to 64 hosts
        network [--rounds N]    RDMA beside TCP on paths that delay, lose and reorder, as root
           --all                24 paths and not 7; or one by --mtu, --delay-us, --jitter-us, --loss, --reordered
           --jitter-us N        each frame is late by up to N, by chance, so that frames overtake each other
           --late-us N          what is reordered is late by up to N, and not 200
           --ahead              what is reordered skips delay and jitter, and is not late
           --gbps R --queue-kb Q  the port before each path
           --frames             over interfaces without offloads: each packet is sent and received alone
           --seconds S          how long each is at work, and not 4, or 8 with --share, or 16 with --alike
           --events             by `ferroce bench`, which waits for events, and not by perftest, which polls
           --latency            what short messages take, alone and beside such a load
           --share              what TCP and RDMA have while both are at work
           --alike              how evenly eight flows of one kind share it
           --tcp NAME           TCP with this congestion control, such as cubic, and not the kernel's own
";

fn main() -> ExitCode {
    match dispatch(Arguments::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(mut arguments: Arguments) -> Result<()> {
    let asks_for_help = arguments.contains(["-h", "--help"]);
    let Some(command) = arguments.subcommand()?.filter(|_| !asks_for_help) else {
        print!("{USAGE}");
        return Ok(());
    };
    match command.as_str() {
        "tidy" => {
            let choice = tidy::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            tidy::run(&choice)
        }
        "dist" => finish(arguments).and_then(|()| dist::run()),
        "ci" => {
            let only = arguments.opt_value_from_str("--only")?;
            finish(arguments)?;
            ci::run(only)
        }
        "demo" => {
            finish(arguments)?;
            dist::run()?;
            demo::run()
        }
        "programs" => {
            let choice = programs::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            if !choice.is_prepared() {
                dist::run()?;
            }
            tally::require_all_passed(programs::run(&choice)?)
        }
        "labs" => {
            let choice = labs::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            dist::run()?;
            tally::require_all_passed(labs::run(&choice)?)
        }
        "book" => {
            let long = arguments.contains("--long");
            finish(arguments)?;
            dist::run()?;
            tally::require_all_passed(book::run(long)?)
        }
        "extensions" => {
            finish(arguments)?;
            tally::require_all_passed(extensions::run()?)
        }
        "mistakes" => {
            finish(arguments)?;
            dist::run()?;
            tally::require_all_passed(mistakes::run()?)
        }
        "pingmesh" => {
            let choice = pingmesh::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            if !choice.is_prepared() {
                dist::run()?;
            }
            pingmesh::prepare()?;
            tally::require_all_passed(pingmesh::run(&choice)?)
        }
        "pyverbs" => {
            let choice = pyverbs::Choice::parse(&mut arguments)?;
            let distribution: Option<String> = arguments.opt_value_from_str("--distribution")?;
            finish(arguments)?;
            dist::run()?;
            tally::require_all_passed(match distribution {
                None => pyverbs::run(&choice)?,
                Some(name) => distributions::pyverbs(&name, choice)?,
            })
        }
        "distributions" => {
            let choice = distributions::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            dist::run()?;
            distributions::prepare(&choice)?;
            tally::require_all_passed(distributions::run(&choice)?)
        }
        "interop" => {
            let choice = interop::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            interop::prepare(&choice)?;
            tally::require_all_passed(interop::run(&choice)?)
        }
        "bench" => {
            let rounds = bench::rounds(&mut arguments)?;
            let name = arguments.subcommand()?;
            if name.as_deref() == Some("network") {
                let choice = network::Choice::parse(&mut arguments, rounds)?;
                finish(arguments)?;
                return network::run(&choice);
            }
            if name.as_deref() == Some("lab") {
                finish(arguments)?;
                dist::run()?;
                return labs::scale::run(rounds);
            }
            let set = bench::Set::named(name.as_deref())?;
            finish(arguments)?;
            dist::run()?;
            bench::run(set, rounds)
        }
        "routed" => {
            let choice = routed::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            routed::prepare()?;
            if !choice.inside {
                dist::run()?;
            }
            tally::require_all_passed(routed::run(&choice)?)
        }
        "speed" => finish(arguments).and_then(|()| speed::run()),
        "storm" => storm::run(arguments),
        "strangers" => {
            finish(arguments)?;
            strangers::prepare()?;
            tally::require_all_passed(strangers::run()?)
        }
        "crowd" => {
            let choice = crowd::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            crowd::run(&choice)
        }
        "abi" => finish(arguments).and_then(|()| abi::run()),
        "aarch64" => {
            let choice = aarch64::Choice::parse(&mut arguments)?;
            finish(arguments)?;
            aarch64::prepare()?;
            tally::require_all_passed(aarch64::run(&choice)?)
        }
        other => bail!("no such command: {other}\n\n{USAGE}"),
    }
}

/// Refuses arguments that no command has read.
fn finish(arguments: Arguments) -> Result<()> {
    match arguments.finish().first() {
        None => Ok(()),
        Some(extra) => bail!("unexpected argument: {}", extra.to_string_lossy()),
    }
}
