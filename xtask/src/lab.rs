//! Running unmodified programs over what `cargo xtask dist` built, as a user without rights.
//!
//! Root runs the programs as `nobody`, from a copy that `nobody` can read, because they must work
//! without privileges.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::workspace;

/// The user and group `nobody`, the same number on every Linux.
pub(crate) const NOBODY: u32 = 65534;
/// How often a running program is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// A place where programs run: a scratch folder, and `ferroce` reachable for the user they run as.
#[derive(Debug)]
pub(crate) struct Lab {
    folder: TempDir,
    dist: PathBuf,
    as_nobody: bool,
    /// Flags that go before those of each run.
    flags: Vec<String>,
    /// Another distribution's root folder, if the programs are that one's.
    root: Option<PathBuf>,
    /// The process in whose network namespace programs run, if not in ours.
    network: Option<u32>,
}

/// A program that was started; dropping it ends it and whatever it started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// How a program ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if it had to be killed.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Lab {
    /// Prepares the scratch folder.
    pub(crate) fn open() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ferroce-").tempdir()?;
        let mut dist = workspace::dist_dir();
        if !dist.join("bin/ferroce").is_file() {
            bail!("{} is empty\n hint: run `cargo xtask dist` first", dist.display());
        }
        let as_nobody = geteuid().is_root();
        if as_nobody {
            let copy = folder.path().join("dist");
            copy_tree(&dist, &copy)?;
            dist = copy;
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
            chown(folder.path(), Some(NOBODY), Some(NOBODY))?;
        }
        Ok(Self { folder, dist, as_nobody, flags: Vec::new(), root: None, network: None })
    }

    /// The same lab, for the programs below another root folder.
    pub(crate) fn below(self, root: Option<PathBuf>) -> Self {
        Self { root, ..self }
    }

    /// Whether programs are those of another distribution.
    pub(crate) fn is_below_another_root(&self) -> bool {
        self.root.is_some()
    }

    /// The same lab, for programs in the network namespace of a process.
    pub(crate) fn within(self, process: u32) -> Self {
        Self { network: Some(process), ..self }
    }

    /// As [`Lab::open`], with the device on a loopback address that is unlikely to be in use: so it does not
    /// meet other programs over Ferroce on this machine, of whatever user.
    pub(crate) fn open_apart() -> Result<Self> {
        let [_, high, middle, low] = process::id().to_be_bytes();
        let device = format!("lo/127.{}.{middle}.{low}", 128 + high % 64);
        Ok(Self { flags: vec!["--dev".to_owned(), device], ..Self::open()? })
    }

    /// As [`Lab::open`], with the device at an address of an interface.
    pub(crate) fn open_on(interface: &str, address: &str) -> Result<Self> {
        let device = format!("{interface}/{address}");
        Ok(Self { flags: vec!["--dev".to_owned(), device], ..Self::open()? })
    }

    /// What `ferroce` is told of the programs' device.
    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// The address of the programs' device.
    pub(crate) fn address(&self) -> &str {
        let named = self.flags.iter().find_map(|flag| flag.split_once('/'));
        named.map_or("127.0.0.1", |(_, address)| address)
    }

    /// A multicast group that is unlikely to be in use.
    pub(crate) fn group(&self) -> String {
        let own = self.address().split_once('.').map_or("0.0.1", |(_, own)| own);
        format!("239.{own}")
    }

    /// Where programs run, and where they may write.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles a C program of this repository against our library, and against what else is named
    /// behind its sources, and returns its path.
    pub(crate) fn compile(&self, name: &str, sources: &[&str]) -> Result<String> {
        let program = self.folder.path().join(name);
        if !program.exists() {
            let mut command = Command::new("cc");
            command.current_dir(workspace::root());
            command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).args(sources);
            command.arg("-L").arg(self.dist.join("lib/ferroce")).arg("-l:libibverbs.so.1");
            workspace::run(&mut command).context("the headers come with libibverbs-dev")?;
            // Whatever the mask for new files is, `nobody` must be able to run it.
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        }
        Ok(program.display().to_string())
    }

    /// As text for the output.
    pub(crate) fn user(&self) -> String {
        if self.as_nobody {
            format!("nobody (uid {NOBODY})")
        } else {
            format!("uid {}", geteuid().as_raw())
        }
    }

    /// A program as it is.
    pub(crate) fn plain(&self, program: &str) -> Command {
        self.command_in(self.network, program)
    }

    /// A program as it is, in the network namespace of a process.
    pub(crate) fn plain_within(&self, process: u32, program: &str) -> Command {
        self.command_in(Some(process), program)
    }

    fn command_in(&self, network: Option<u32>, program: &str) -> Command {
        let mut command = match (&self.root, network) {
            (None, None) => Command::new(program),
            (Some(root), _) => enter(root, program),
            (None, Some(process)) => enter_network(process, program),
        };
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        if self.as_nobody {
            if self.root.is_none() && network.is_none() {
                command.uid(NOBODY).gid(NOBODY);
            }
            command.env("HOME", self.folder.path());
            // The runtime folder of root is closed to others.
            command.env_remove("XDG_RUNTIME_DIR");
        }
        command
    }

    /// The command, as users get it.
    pub(crate) fn command(&self) -> PathBuf {
        self.dist.join("bin/ferroce")
    }

    /// `ferroce run FLAGS -- WORDS`.
    pub(crate) fn run<W: AsRef<OsStr>>(&self, flags: &[String], words: &[W]) -> Command {
        let mut command = self.plain(&self.command().to_string_lossy());
        command.arg("run").args(&self.flags).args(flags).arg("--").args(words);
        command
    }

    /// Processes that still run where its programs are started, by number and name.
    pub(crate) fn processes(&self) -> Vec<String> {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let of_ours = all.filter(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|at| at.starts_with(self.folder()))
        });
        let shown = |process: fs::DirEntry| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            format!("process {} ({})", process.file_name().to_string_lossy(), name.trim_end())
        };
        of_ours.map(shown).collect()
    }

    /// Starts a command in a process group of its own, with its output in files called `name`.
    pub(crate) fn start(&self, name: &str, mut command: Command) -> Result<Running> {
        let stdout = self.folder.path().join(format!("{name}.stdout"));
        let stderr = self.folder.path().join(format!("{name}.stderr"));
        command.process_group(0);
        command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", workspace::shown(&command)))?;
        Ok(Running { child, stdout, stderr })
    }

    /// Runs a command to its end, or to the deadline.
    pub(crate) fn finish(&self, name: &str, command: Command, deadline: Instant) -> Result<Ended> {
        self.start(name, command)?.finish(deadline)
    }
}

/// A program below another root folder, as `nobody`. Devices, shared memory and scratch folders are
/// the host's, mounted for this process alone; its ID is the program's.
fn enter(root: &Path, program: &str) -> Command {
    const ENTER: &str = r#"root=$1; shift
for folder in proc sys dev tmp; do mount --rbind "/$folder" "$root/$folder"; done
exec chroot --userspec=65534:65534 "$root" sh -c 'cd "$HOME"; exec "$@"' sh "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", ENTER, "sh"]).arg(root).arg(program);
    command
}

/// A program in the network namespace of a process, as `nobody`; its ID is the program's.
fn enter_network(process: u32, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &process.to_string(), "--net"]);
    command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program]);
    command
}

impl Running {
    /// The process ID, which `ferroce run` hands on to its program.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the program has ended.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// What it has printed so far on stdout.
    pub(crate) fn printed(&self) -> Result<String> {
        read(&self.stdout)
    }

    /// Waits for the end of the program, and kills it at the deadline.
    pub(crate) fn finish(mut self, deadline: Instant) -> Result<Ended> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break Some(status);
            }
            if Instant::now() >= deadline {
                self.kill();
                break None;
            }
            sleep(GLANCE);
        };
        Ok(Ended { status, stdout: read(&self.stdout)?, stderr: read(&self.stderr)? })
    }

    /// Waits until a process listens on a TCP port. `false` if the program ended or time ran out.
    pub(crate) fn listens(&mut self, port: u16, deadline: Instant) -> Result<bool> {
        let process = self.id();
        self.waits_for(deadline, || Ok(is_listened_on(process, port)))
    }

    /// Waits until the program waits for RDMA CM's requests at `port`; says whether it does.
    pub(crate) fn listens_for_cm(&mut self, port: u16, deadline: Instant) -> Result<bool> {
        self.waits_for(deadline, || Ok(is_listened_on_by_cm(port)))
    }

    /// Waits until the program receives what is sent to a UDP port of a multicast group; says
    /// whether it does.
    pub(crate) fn has_joined(&mut self, group: &str, port: u16, deadline: Instant) -> Result<bool> {
        let group: Ipv4Addr = group.parse().context("the group of a run")?;
        self.waits_for(deadline, || {
            let table = fs::read_to_string("/proc/net/udp").context("cannot read /proc/net/udp")?;
            Ok(has_socket(&table, group, port))
        })
    }

    fn waits_for(&mut self, deadline: Instant, is_so: impl Fn() -> Result<bool>) -> Result<bool> {
        while !is_so()? {
            if self.has_ended()? || Instant::now() >= deadline {
                return Ok(false);
            }
            sleep(GLANCE);
        }
        Ok(true)
    }

    /// Asks it to end, as whoever has started it would.
    pub(crate) fn interrupt(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::INT)?)
    }

    /// Ends it at once, and whatever it started.
    pub(crate) fn kill(&mut self) {
        // Either call fails only if the program is gone already, which is what is wanted.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `wait` the number may belong to another process.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}

/// A TCP port that is not in use at the moment.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    stop_listening(listener)?;
    Ok(port)
}

/// Ends a listener at once. Closing it may not: a child that another thread is just starting has a copy
/// of every descriptor of ours, until it runs its own program.
fn stop_listening(listener: TcpListener) -> Result<()> {
    TcpStream::from(OwnedFd::from(listener))
        .shutdown(Shutdown::Both)
        .context("cannot stop listening")
}

/// Looks the port up in the table of the process's network namespace: a connection made to find out would
/// be taken by the server for its client.
fn is_listened_on(process: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    for table in ["tcp", "tcp6"] {
        // A kernel without IPv6 has no second table, and a process that has ended none.
        let Ok(text) = fs::read_to_string(format!("/proc/{process}/net/{table}")) else { continue };
        let listens = |line: &str| {
            let mut columns = line.split_whitespace().skip(1);
            let local = columns.next().is_some_and(|local| local.ends_with(&suffix));
            local && columns.nth(1) == Some(LISTEN)
        };
        if text.lines().any(listens) {
            return true;
        }
    }
    false
}

/// Looks the port up in the tables by which the soft NICs of a host share their ports
/// (`crates/softnic/src/host/ports.rs`), those of every user and network namespace.
fn is_listened_on_by_cm(port: u16) -> bool {
    let folders = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let folders = folders.filter(|it| it.file_name().to_string_lossy().starts_with("ferroce-"));
    let files =
        folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let tables = files.filter(|file| file.file_name().to_string_lossy().starts_with("ports-"));
    tables.filter_map(|table| fs::read(table.path()).ok()).any(|table| has_port(&table, port))
}

/// Whether a table of ports has a listener at `port`, in any port space.
fn has_port(table: &[u8], port: u16) -> bool {
    const HEADER: usize = 16;
    let (entries, _) = table.get(HEADER..).unwrap_or_default().as_chunks::<24>();
    let count = table.get(8..HEADER).and_then(|count| count.try_into().ok());
    let count = usize::try_from(count.map_or(0, u64::from_ne_bytes)).unwrap_or(0);
    entries.iter().take(count).any(|entry| {
        let word =
            |at: usize| entry[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        word(0) & 0xffff == u64::from(port) && word(16) & 1 != 0
    })
}

/// Whether the kernel's table of UDP sockets has one with this address and port.
fn has_socket(table: &str, address: Ipv4Addr, port: u16) -> bool {
    let name = format!("{:08X}:{port:04X}", u32::from_ne_bytes(address.octets()));
    table.lines().any(|line| line.split_whitespace().nth(1) == Some(&name))
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_port_of_rdma_cm_is_found_in_its_table() {
        let mut table = b"FRPORTS\x02".to_vec();
        table.extend(2_u64.to_ne_bytes());
        for (service, flags) in [(0x0106_1c06_u64, 0_u64), (0x0111_1c07, 1), (0x0106_1c08, 1)] {
            for word in [service, 7, flags] {
                table.extend(word.to_ne_bytes());
            }
        }
        // Taken, but not listened at; listened at; left over of a longer table.
        assert_eq!([7174, 7175, 7176].map(|port| has_port(&table, port)), [false, true, false]);
        assert!(!has_port(&table[..12], 7175));
    }

    #[test]
    fn who_has_joined_a_group_is_seen() {
        let group = Ipv4Addr::new(239, 255, 54, 1);
        let socket = UdpSocket::bind((group, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let table = fs::read_to_string("/proc/net/udp").unwrap();
        assert!(has_socket(&table, group, port) && !has_socket(&table, group, port ^ 1));
    }

    #[test]
    fn a_listener_is_seen_without_connecting_to_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listened_on(process::id(), port));
        // The copy that a forked child has before it runs its own program.
        let _copy = listener.try_clone().unwrap();
        stop_listening(listener).unwrap();
        assert!(!is_listened_on(process::id(), port));
    }
}
