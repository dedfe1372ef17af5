//! `cargo xtask aarch64`: what can be said of arm64 on a machine of another kind, where qemu executes its programs one by
//! one (qemu-user).
//!
//! Tests of the engine and of the soft NIC, compiled for it; then perftest of Debian for arm64 over our libraries. What
//! is not run, because qemu-user does not do what the kernel does, is named with its reason ([`UNABLE`]); some options of
//! sockets it does not hand to the kernel (`aarch64/unsupported.c`). Nothing here says how fast anything is, nor what
//! weak ordering of memory does: this processor's is strong.
//!
//! ```text
//!   target/aarch64/root               Debian's packages for arm64, unpacked
//!   target/aarch64/aarch64-.../       what is compiled
//!   target/aarch64/lib/ferroce        our libraries
//! ```

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use pico_args::Arguments;
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::debootstrap;
use crate::dist::Libraries;
use crate::lab::NOBODY;
use crate::tally::{self, Tally};
use crate::workspace::{self, cargo};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "/usr/bin/qemu-aarch64-static";
/// The C library that came with the compiler.
const PREFIX: &str = "/usr/aarch64-linux-gnu";
const SUITE: &str = "bookworm";
const PACKAGES: &str = "ibverbs-utils,perftest";
/// Where the kernel is told which programs qemu executes.
const FORMATS: &str = "/proc/sys/fs/binfmt_misc";
const FORMAT: &str = "ferroce-aarch64";

const ROOMS: [&str; 3] = ["wire", "transport", "softnic"];
/// What qemu-user cannot run, and why.
const UNABLE: [(&str, &str); 20] = [
    ("storm", "takes too long"),
    ("crowd::", "takes too long"),
    ("the_kernel_copies_as_well", "no process_vm_readv"),
    ("the_mtu_of_a_route_is_that_of_the_path", "no IP_MTU"),
    ("the_socket_of_a_group_that_was_left_is_closed", NO_GROUPS),
    ("a_group_is_heard_while_the_application_sleeps_until_it_is_left", NO_GROUPS),
    ("a_long_gso_batch_arrives_whole", NO_GROUPS),
    ("a_packet_to_a_group_with_the_number_of_one_queue_pair_is_dropped", NO_GROUPS),
    ("every_nic_of_a_group_gets_one_copy_its_sender_included", NO_GROUPS),
    ("what_is_no_group_or_cannot_be_joined_is_refused", NO_GROUPS),
    ("a_wrong_order_is_noticed_and_put_right", NO_STEERING),
    ("processes::", NO_STEERING),
    ("connections_are_made_between_nics_that_share_an_address", NO_STEERING),
    ("faults_that_are_not_ours_end_the_program_as_ever", FORKS),
    ("a_nic_has_so_many_rings_and_reaches_others_by_udp", UNANSWERED),
    ("one_of_many_that_a_nic_speaks_to_in_turn_is_offered_no_ring", UNANSWERED),
    ("a_receiver_that_lies_costs_a_queue_pair_and_no_more", UNANSWERED),
    ("a_nic_that_knows_nothing_of_connections_refuses_them", UNKNOWN),
    ("a_peer_that_stops_for_a_while_under_load_and_has_little_room_loses_nothing", UNKNOWN),
    ("a_process_that_may_not_share_memory_is_reached_by_udp", UNKNOWN),
];
/// It passes alone, and has hung among others.
const FORKS: &str = "forks beside other threads, in which the emulator can hang";
/// With an ACK timeout of 134 ms in place of 4 as well.
const UNANSWERED: &str = "a WRITE is not answered there, and nobody has looked why";
const NO_GROUPS: &str = "no IP_MULTICAST_ALL";
const NO_STEERING: &str = "no SO_ATTACH_REUSEPORT_CBPF";
const UNKNOWN: &str = "fails there, and nobody has looked why";
/// Makes as if options of sockets were set that it does not hand to the kernel.
const UNSUPPORTED: &str = "libunsupported.so";

/// Where our libraries are in the other root folder.
const INSIDE: &str = "opt/ferroce";
/// What of perftest runs: the program, and its words.
const PAIRS: [&[&str]; 4] = [
    &["ib_write_bw", "-n", "500"],
    &["ib_write_lat", "-n", "200"],
    &["ib_read_bw", "-n", "200"],
    &["ib_send_lat", "-n", "200"],
];
/// A pair that takes longer hangs. Emulation is slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes ready what runs.
///
/// # Errors
/// Why it cannot be: no root, no network.
pub(crate) fn prepare() -> Result<()> {
    if !geteuid().is_root() {
        bail!("only root can enter another root folder");
    }
    workspace::run(Command::new(workspace::root().join("scripts/setup")).arg("aarch64"))?;
    fill(&folder().join("root"))
}

fn folder() -> PathBuf {
    workspace::target_dir().join("aarch64")
}

/// Unpacks the packages. Nothing is configured: no program of arm64 runs for that.
fn fill(root: &Path) -> Result<()> {
    let include = format!("--include={PACKAGES}");
    let words = ["--arch=arm64", "--foreign", "--variant=minbase", &include, SUITE];
    debootstrap::fill(root, &words, |fresh| {
        for entry in fs::read_dir(fresh.join("var/cache/apt/archives"))? {
            let package = entry?.path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                workspace::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(fresh))?;
            }
        }
        Ok(fs::create_dir_all(fresh.join("dev/shm"))?)
    })
}

/// What was asked for on the command line.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Whose tests are run.
    rooms: Vec<&'static str>,
    pairs: bool,
}

impl Choice {
    pub(crate) fn parse(arguments: &mut Arguments) -> Result<Self> {
        if arguments.contains("--pairs") {
            return Ok(Self { rooms: Vec::new(), pairs: true });
        }
        let Some(named) = arguments.opt_value_from_str::<_, String>("--room")? else {
            return Ok(Self { rooms: ROOMS.to_vec(), pairs: true });
        };
        let Some(room) = ROOMS.into_iter().find(|room| *room == named) else {
            bail!("--room is one of {}, not {named}", ROOMS.join(", "));
        };
        Ok(Self { rooms: vec![room], pairs: false })
    }
}

/// Runs the tests, and then the pairs.
pub(crate) fn run(choice: &Choice) -> Result<Tally> {
    let _format = Format::register()?;
    let unsupported = compile_unsupported()?;
    let mut sum = Tally::default();
    if !choice.rooms.is_empty() {
        for (test, why) in UNABLE {
            println!("not run: {test}: {why}");
        }
        sum = tests(&choice.rooms, &unsupported)?;
    }
    if choice.pairs {
        build()?;
        let pairs = pairs()?;
        sum.passed += pairs.passed;
        sum.failed += pairs.failed;
    }
    Ok(sum)
}

/// cargo, which compiles for arm64, quickly.
fn cross() -> Command {
    let mut command = cargo();
    command.env("CARGO_TARGET_DIR", folder());
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER);
    // Not the other root folder: qemu would show tests its empty /proc.
    command.env("QEMU_LD_PREFIX", PREFIX);
    for (name, value) in [("OPT_LEVEL", "1"), ("DEBUG", "0"), ("INCREMENTAL", "false")] {
        command.env(format!("CARGO_PROFILE_DEV_{name}"), value);
    }
    command
}

/// In the other root folder, where programs and tests find it.
fn compile_unsupported() -> Result<PathBuf> {
    let inside = folder().join("root").join(INSIDE);
    fs::create_dir_all(&inside)?;
    let library = inside.join(UNSUPPORTED);
    let mut command = Command::new(COMPILER);
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library);
    command.arg(workspace::root().join("xtask/src/aarch64/unsupported.c"));
    workspace::run(command.arg("-ldl"))?;
    Ok(library)
}

fn tests(rooms: &[&str], unsupported: &Path) -> Result<Tally> {
    let mut command = cross();
    // qemu itself is linked statically, and takes no notice.
    command.env(
        "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
        format!("env LD_PRELOAD={}", unsupported.display()),
    );
    command.args(["test", "--quiet", "--no-fail-fast", "--target", TARGET]);
    command.args(["--lib", "--bins", "--tests"]);
    for room in rooms {
        command.arg("--package").arg(format!("ferroce-{room}"));
    }
    command.arg("--");
    for (test, _) in UNABLE {
        command.args(["--skip", test]);
    }
    tally::tests(&mut command)
}

fn libraries() -> PathBuf {
    folder().join("lib/ferroce")
}

fn build() -> Result<()> {
    workspace::run(cross().args(["build", "--target", TARGET, "--package", "ferroce-ibverbs"]))?;
    let libraries = Libraries {
        compiler: COMPILER.into(),
        archive: folder().join(TARGET).join("debug/libibverbs.a"),
        folder: libraries(),
    };
    libraries.link()?;
    libraries.build_paths()
}

/// Runs a server and a client of each program.
fn pairs() -> Result<Tally> {
    let root = folder().join("root");
    let inside = root.join(INSIDE);
    for entry in fs::read_dir(libraries())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), inside.join(entry.file_name()))?;
        }
    }
    let mut sum = Tally::default();
    for words in PAIRS {
        match pair(&root, words) {
            Ok(()) => sum.passed += 1,
            Err(error) => {
                println!("{}: {error:#}", words.join(" "));
                sum.failed += 1;
            }
        }
    }
    println!("{sum}");
    Ok(sum)
}

/// Both in a network namespace and with mounts that end with them.
fn pair(root: &Path, words: &[&str]) -> Result<()> {
    let folder = TempDir::new()?;
    let script = "ip link set lo up; mount -t proc proc \"$0/proc\"; \
         mount -t tmpfs tmpfs \"$0/dev/shm\" -o mode=1777; \
         \"$@\" >\"$OUT/server\" 2>&1 & sleep 3; \"$@\" 127.0.0.1 >\"$OUT/client\" 2>&1; \
         client=$?; wait $!; exit $((client + $?))";
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]);
    command.arg(root).env("OUT", folder.path());
    command.arg("chroot").arg(format!("--userspec={NOBODY}:{NOBODY}")).arg(root);
    command.args(["env", "FERROCE_DEV=lo"]);
    let preloaded = [UNSUPPORTED, "libibverbs.so.1", "librdmacm.so.1", "libferroce-paths.so"];
    let preloaded = preloaded.map(|name| format!("/{INSIDE}/{name}")).join(":");
    command.arg(format!("LD_PRELOAD={preloaded}")).args(words).args(["-d", "ferroce0", "-F"]);
    let mut child = command.stdin(Stdio::null()).spawn().context("cannot start unshare")?;
    let status = wait(&mut child)?;
    let said = |who: &str| fs::read_to_string(folder.path().join(who)).unwrap_or_default();
    let client = said("client");
    let results = client.lines().filter(|line| is_result(line)).count();
    ensure!(
        status.is_some_and(|status| status.success()) && results > 0,
        "{status:?}\n{}\n{client}",
        said("server")
    );
    println!("{}:", words.join(" "));
    client.lines().filter(|line| line.contains("#bytes") || is_result(line)).for_each(|line| {
        println!("  {}", line.trim());
    });
    Ok(())
}

/// perftest's row of figures, none of which is zero.
fn is_result(line: &str) -> bool {
    let figures: Option<Vec<f64>> = line.split_whitespace().map(|it| it.parse().ok()).collect();
    figures.is_some_and(|figures| figures.len() > 3 && figures[2] > 0.0)
}

fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Has the kernel give programs of arm64 to qemu, for as long as this lives.
struct Format {
    /// `None` if it did so already.
    registered: Option<PathBuf>,
}

impl Format {
    fn register() -> Result<Self> {
        let formats = Path::new(FORMATS);
        if !formats.join("register").exists() {
            workspace::run(Command::new("mount").args(["-t", "binfmt_misc", "none", FORMATS]))?;
        }
        // By Debian's package, where systemd runs; or by one of us that was killed.
        if ["qemu-aarch64", FORMAT].iter().any(|name| formats.join(name).exists()) {
            return Ok(Self { registered: None });
        }
        let magic = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0xb7, 0];
        let mut mask = [0xff; 20];
        // Any ABI; programs with a fixed address and without.
        (mask[7], mask[16]) = (0, 0xfe);
        let escaped = |bytes: [u8; 20]| bytes.map(|byte| format!("\\x{byte:02x}")).concat();
        // F: qemu is opened now, so it need not be in the other root folder.
        let line = format!(":{FORMAT}:M::{}:{}:{EMULATOR}:F", escaped(magic), escaped(mask));
        fs::write(formats.join("register"), line).context("the kernel does not take qemu")?;
        Ok(Self { registered: Some(formats.join(FORMAT)) })
    }
}

impl Drop for Format {
    fn drop(&mut self) {
        if let Some(path) = &self.registered {
            let _ = fs::write(path, "-1");
        }
    }
}
