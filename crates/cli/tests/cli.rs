//! What `ferroce` prints and how it ends. `SNAPSHOTS=overwrite cargo test -p ferroce-cli` rewrites
//! the expectations.

mod bench;
mod book;
mod ends;
mod export;
mod pingmesh;
mod sim;

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use snapbox::cmd::Command;
use snapbox::str;
use tempfile::TempDir;

/// A folder with empty shared libraries in the place of ours: what is tested here is the
/// launcher, and any program must load.
struct Library(TempDir);

impl Library {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["libibverbs.so.1", "librdmacm.so.1", "libferroce-paths.so"] {
            let status = Process::new("cc")
                .args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"])
                .arg(folder.path().join(name))
                .status()
                .unwrap();
            assert!(status.success());
        }
        Self(folder)
    }

    /// `ferroce` with this library and nothing of Ferroce in the environment.
    fn ferroce(&self) -> Command {
        let inherited = env::vars_os().map(|(name, _)| name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("FERROCE_")) {
            command = command.env_remove(name);
        }
        command
            .env_remove("LD_PRELOAD")
            .env_remove("LD_LIBRARY_PATH")
            .env("FERROCE_LIBDIR", self.0.path())
    }

    /// What `env` prints below `ferroce run FLAGS`, without what is not ours, sorted.
    fn environment(&self, flags: &[&str], inherited: &[(&str, &str)]) -> String {
        let mut command = self.ferroce();
        for &(name, value) in inherited {
            command = command.env(name, value);
        }
        let assert = command.arg("run").args(flags).args(["--", "env"]).assert().success();
        let output = assert.get_output();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let ours = |line: &&str| line.starts_with("FERROCE_") || line.starts_with("LD_");
        let mut lines: Vec<&str> = stdout.lines().filter(ours).collect();
        lines.sort_unstable();
        let folder = self.0.path().canonicalize().unwrap();
        lines.join("\n").replace(folder.to_str().unwrap(), "LIBDIR") + "\n"
    }
}

fn ferroce() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ferroce")).env_remove("FERROCE_LIBDIR")
}

fn executable(path: &Path, mode: u32) -> PathBuf {
    fs::copy("/bin/true", path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_owned()
}

#[test]
fn help_lists_the_commands() {
    ferroce().arg("--help").assert().success().stderr_eq("").stdout_eq(str![[r#"
RDMA without an RDMA NIC: runs unmodified verbs programs over RoCEv2 in software

Usage: ferroce <COMMAND>

Commands:
  run          Run a program with Ferroce in the place of libibverbs
  devices      List the RDMA devices that programs see, and how each talks to
               other hosts
  counters     Show what the programs that run now have counted, under the names
               of Linux
  bench        Measure verbs: bandwidth, rates and latencies of any number of
               flows at once
  sim          Run a scenario in the simulator: links, switches and NICs around
               the same engine
  compare      Hold the results of several simulations against each other: the
               same flows side by side
  lab          Run programs as hosts of a modelled fabric, in real time
  export       Expose counters to Prometheus: of this host, of what was saved of
               others, of a simulation
  watch        Watch pauses, marks, drops and retransmissions, with what looks
               wrong on top
  pingmesh     Probe hosts by RDMA, and say which host, NIC, link or switch is
               sick
  papers       Run what a paper ran, and hold what it found against what is
               measured
  doctor       Judge the configuration of switches and hosts, from their files,
               by rules with an incident behind each
  completions  Print the completions of a shell, such as bash, for it to load
  man          Write the man pages of all commands to a folder

Options:
  -h, --help     Print help
  -V, --version  Print version

"#]]);
}

#[test]
fn help_of_run_shows_flags_variables_and_examples() {
    ferroce().args(["run", "--help"]).assert().success().stderr_eq("").stdout_eq(str![[r#"
Run a program with Ferroce in the place of libibverbs

Usage: ferroce run [OPTIONS] <PROGRAM>...

Arguments:
  <PROGRAM>...
          The program and its arguments

Options:
      --dev <INTERFACE,...>
          Interfaces to make devices of, such as eth0 or lo/127.0.0.2, the first
          being ferroce0; loopback unless named (FERROCE_DEV)

      --mtu <BYTES>
          Path MTU: 256, 512, 1024, 2048 or 4096 bytes; otherwise the largest
          that fits the interface (FERROCE_MTU)

      --faults <FAULT=PROBABILITY,...;FAULT:AIM=VALUE,...>
          Faults to inject, such as
          loss=0.01,reorder=0.02,duplicate=0.01,corrupt=0.001,ecn=0.05,seed=7,
          or aimed, such as
          'drop:opcode=write,nth=3;delay:delay_us=500,every=10' (FERROCE_FAULTS)

      --cc <CONTROLLER,SETTING=VALUE,...>
          Congestion control: none, dcqcn, bbr, or a constant rate such as
          fixed,rate_mbps=1000; otherwise bbr to other hosts and none within
          this one (FERROCE_CC)

      --pcap <FILE>
          Record every packet that the program sends and receives, in a file or
          FIFO, or on stdout for `-`, which sends the program's own output to
          stderr; %p in the name stands for the process ID; behind the name,
          `,snaplen=256,size=100M` bound the bytes of a frame and of the whole
          (FERROCE_PCAP)

      --stats <FILE>
          When the program has ended, however it did: counters, queue pairs,
          what failed and why, as JSON in this file, or as a table on stderr for
          `-`

      --link <LINK>
          Which way packets take to programs of the same host (FERROCE_LINK)

          Possible values:
          - shm:      Shared memory, if they are of the same user; fast
          - shm,icrc: The same, with the check sums that packets have on the
            wire
          - udp:      UDP, as to other hosts

      --wire <WIRE>
          How packets reach the socket (FERROCE_WIRE)

          Possible values:
          - train: Many packets in one system call; fast
          - exact: One packet a datagram, so that a capture on the interface
            shows each

      --log <FILTER>
          What to log on stderr, such as info or softnic=debug (FERROCE_LOG)

  -h, --help
          Print help (see a summary with '-h')

Examples:
  ferroce run ibv_devinfo
  ferroce run -- ib_write_bw -d ferroce0              # a server
  ferroce run -- ib_write_bw -d ferroce0 127.0.0.1    # its client, elsewhere
  ferroce run --faults loss=0.01,seed=7 -- ib_read_lat 127.0.0.1

The program's own output, exit status and signals are untouched. A flag sets the
environment variable named beside it, which the program may also have from
elsewhere.

"#]]);
}

#[test]
fn run_without_a_program_is_a_mistake() {
    ferroce().arg("run").assert().code(2).stdout_eq("").stderr_eq(str![[r#"
error: the following required arguments were not provided:
  <PROGRAM>...

Usage: ferroce run <PROGRAM>...

For more information, try '--help'.

"#]]);
}

#[test]
fn run_puts_the_libraries_first_and_shows_the_devices_files() {
    snapbox::assert_data_eq!(
        Library::new().environment(&[], &[]),
        str![[r#"
FERROCE_LIBDIR=LIBDIR
FERROCE_SYSFS=[..]
LD_LIBRARY_PATH=LIBDIR
LD_PRELOAD=LIBDIR/libibverbs.so.1:LIBDIR/librdmacm.so.1:LIBDIR/libferroce-paths.so

"#]]
    );
}

#[test]
fn run_turns_flags_into_variables() {
    let flags = ["--dev", "lo", "--mtu", "1024", "--faults", "loss=0.01,seed=7"];
    let more = ["--pcap", "/tmp/run.pcap", "--wire", "exact", "--log", "info", "--cc", "dcqcn"];
    let environment = Library::new().environment(&[flags.as_slice(), &more].concat(), &[]);
    snapbox::assert_data_eq!(
        environment,
        str![[r#"
FERROCE_CC=dcqcn
FERROCE_DEV=lo
FERROCE_FAULTS=loss=0.01,seed=7
FERROCE_LIBDIR=LIBDIR
FERROCE_LOG=info
FERROCE_MTU=1024
FERROCE_PCAP=/tmp/run.pcap,append
FERROCE_SYSFS=[..]
FERROCE_WIRE=exact
LD_LIBRARY_PATH=LIBDIR
LD_PRELOAD=LIBDIR/libibverbs.so.1:LIBDIR/librdmacm.so.1:LIBDIR/libferroce-paths.so

"#]]
    );
}

#[test]
fn run_keeps_what_the_environment_already_holds() {
    let inherited =
        [("LD_PRELOAD", "libc.so.6"), ("LD_LIBRARY_PATH", "/opt/lib"), ("FERROCE_MTU", "512")];
    snapbox::assert_data_eq!(
        Library::new().environment(&[], &inherited),
        str![[r#"
FERROCE_LIBDIR=LIBDIR
FERROCE_MTU=512
FERROCE_SYSFS=[..]
LD_LIBRARY_PATH=LIBDIR:/opt/lib
LD_PRELOAD=libc.so.6:LIBDIR/libibverbs.so.1:LIBDIR/librdmacm.so.1:LIBDIR/libferroce-paths.so

"#]]
    );
}

#[test]
fn run_records_to_an_absolute_path() {
    let folder = TempDir::new().unwrap();
    let library = Library::new();
    let script = "test \"$FERROCE_PCAP\" = \"$PWD/a.pcap,append\"";
    let command = library.ferroce().current_dir(folder.path().canonicalize().unwrap());
    command.args(["run", "--pcap", "a.pcap", "sh", "-c", script]).assert().success();
}

#[test]
fn run_ends_as_the_program_ends() {
    let library = Library::new();
    let run = |script| library.ferroce().args(["run", "--", "sh", "-c", script]).assert();
    run("echo out; echo err >&2; exit 7").code(7).stdout_eq("out\n").stderr_eq("err\n");
    let killed = run("kill -TERM $$");
    assert_eq!(killed.get_output().status.signal(), Some(15));
}

#[test]
fn run_passes_flags_that_follow_the_program_to_the_program() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "echo", "--mtu", "-d", "x", "--help"]);
    command.assert().success().stdout_eq("--mtu -d x --help\n").stderr_eq("");
}

#[test]
fn programs_that_use_no_verbs_run_as_ever() {
    let library = Library::new();
    library.ferroce().args(["run", "true"]).assert().success().stdout_eq("").stderr_eq("");
    library.ferroce().args(["run", "--", "bash", "-c", "ls / | wc -l"]).assert().success();
}

#[test]
fn a_missing_program_is_named() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "no-such-program"]);
    command.assert().code(127).stdout_eq("").stderr_eq(str![[r#"
error: there is no program called no-such-program
hint: check the spelling; what is not in PATH needs its whole path

"#]]);
}

#[test]
fn a_missing_verbs_program_names_its_package() {
    let library = Library::new();
    let command = library.ferroce().env("PATH", "/nowhere").args(["run", "ib_write_bw"]);
    command.assert().code(127).stdout_eq("").stderr_eq(str![[r#"
error: there is no program called ib_write_bw
hint: on Debian and Ubuntu: apt install perftest

"#]]);
}

#[test]
fn programs_of_other_packages_are_known_too() {
    let library = Library::new();
    for (program, package) in [
        ("ibv_devinfo", "ibverbs-utils"),
        ("rping", "rdmacm-utils"),
        ("rdma_server", "rdmacm-utils"),
        ("ucx_info", "ucx-utils"),
        ("fi_info", "libfabric-bin"),
    ] {
        let command = library.ferroce().env("PATH", "/nowhere").args(["run", program]);
        let hint = format!("hint: on Debian and Ubuntu: apt install {package}\n");
        let expected = format!("error: there is no program called {program}\n{hint}");
        command.assert().code(127).stderr_eq(expected);
    }
}

#[test]
fn a_flag_that_there_is_not_is_no_program_to_look_for() {
    let expected = "error: there is no program called --dve
hint: that is no flag of `ferroce run`: --help lists those that it has
";
    let library = Library::new();
    let command = library.ferroce().args(["run", "--dve", "lo", "--", "true"]);
    command.assert().code(127).stderr_eq(expected);
}

#[test]
fn what_a_shell_would_not_look_at_is_no_program() {
    let library = Library::new();
    let command = library.ferroce().env("PATH", "/usr").args(["run", "lib"]);
    command.assert().code(127).stderr_eq(str![[r#"
error: there is no program called lib
hint: check the spelling; what is not in PATH needs its whole path

"#]]);
}

/// The kernel's word for it would be that the script is missing.
#[test]
fn a_script_without_its_interpreter_is_told_from_one_that_is_missing() {
    let library = Library::new();
    let folder = TempDir::new().unwrap();
    let script = executable(&folder.path().join("script"), 0o755);
    fs::write(&script, "#!/nowhere/python3 -u\n").unwrap();
    for flags in [&["run"][..], &["run", "--stats", "-"]] {
        let command = library.ferroce().args(flags).arg("--").arg(&script);
        let expected = format!(
            "error: cannot run {}: its interpreter `/nowhere/python3` does not exist
hint: install it; of a script the first line names it, as in `#!/bin/sh`
",
            script.display()
        );
        command.assert().code(126).stdout_eq("").stderr_eq(expected);
    }
}

#[test]
fn a_script_whose_interpreter_nobody_may_run_names_that() {
    let library = Library::new();
    let folder = TempDir::new().unwrap();
    let script = executable(&folder.path().join("script"), 0o755);
    let interpreter = executable(&folder.path().join("interpreter"), 0o644);
    fs::write(&script, format!("#!{}\n", interpreter.display())).unwrap();
    let (shown, interpreter) = (script.display(), interpreter.display());
    let command = library.ferroce().args(["run", "--"]).arg(&script);
    command.assert().code(126).stdout_eq("").stderr_eq(format!(
        "error: cannot run {shown}: its interpreter `{interpreter}` is not a program that you may run
hint: `ls -l {interpreter}` shows its permissions
"
    ));
}

/// A shell would take it for a script.
#[test]
fn a_program_for_another_processor_is_told_with_both() {
    const ITANIUM: u8 = 50;
    let library = Library::new();
    let folder = TempDir::new().unwrap();
    let program = executable(&folder.path().join("program"), 0o755);
    let mut bytes = fs::read("/bin/true").unwrap();
    (bytes[0x12], bytes[0x13]) = (ITANIUM, 0);
    fs::write(&program, bytes).unwrap();
    for flags in [&["run"][..], &["run", "--stats", "-"]] {
        let command = library.ferroce().args(flags).arg("--").arg(&program);
        let (shown, ours) = (program.display(), env::consts::ARCH);
        command.assert().code(126).stdout_eq("").stderr_eq(format!(
            "error: cannot run {shown}: it is for processor 50 of ELF, and this machine is {ours}
hint: take one that was built for {ours}
"
        ));
    }
}

#[test]
fn a_file_that_is_no_program_is_refused() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "/etc/passwd"]);
    command.assert().code(126).stdout_eq("").stderr_eq(str![[r#"
error: /etc/passwd is not a program that you may run
hint: `ls -l /etc/passwd` shows its permissions

"#]]);
}

#[test]
fn a_folder_is_no_program() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "/usr"]);
    command.assert().code(126).stdout_eq("").stderr_eq(str![[r#"
error: /usr is a folder, not a program
hint: name a program in it

"#]]);
}

#[test]
fn a_setuid_program_is_refused() {
    let library = Library::new();
    let path = executable(&library.0.path().join("raised"), 0o755);
    // Root raises nothing by running root's own file, so this one belongs to somebody else; who
    // is not root cannot give files away and uses a program of the system.
    let path = match chown(&path, Some(65534), None) {
        Ok(()) => executable_with_mode(path, 0o4755),
        Err(_) => PathBuf::from("/usr/bin/passwd"),
    };
    let assert = library.ferroce().arg("run").arg(path).assert();
    assert.code(126).stdout_eq("").stderr_eq(str![[r#"
error: [..] is setuid or setgid, so the loader keeps our library out
hint: let it start ferroce, as in `sudo ferroce run -- PROGRAM`

"#]]);
}

fn executable_with_mode(path: PathBuf, mode: u32) -> PathBuf {
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_missing_library_says_how_to_build_it() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = folder.path().join("ferroce");
    // A copy that is written while another test forks is busy when it is to be run: the child has it
    // open for writing until it runs something else.
    fs::hard_link(env!("CARGO_BIN_EXE_ferroce"), &alone).unwrap();
    let command = Command::new(alone).env_remove("FERROCE_LIBDIR").args(["run", "true"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: there is no libibverbs.so.1 in [..]/lib/ferroce
hint: build it with `cargo xtask dist`, or name its folder in FERROCE_LIBDIR

"#]]);
}

#[test]
fn a_wrong_library_folder_names_the_variable() {
    let command = ferroce().env("FERROCE_LIBDIR", "/usr/share").args(["run", "true"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: there is no libibverbs.so.1 in /usr/share
hint: FERROCE_LIBDIR names the folder; correct it

"#]]);
}

#[test]
fn an_unknown_interface_lists_those_that_exist() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "--dev", "lo,nic9", "true"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: FERROCE_DEV: there is no network interface `nic9`
hint: this host has [..]lo[..]

"#]]);
}

#[test]
fn a_capture_in_a_missing_folder_is_refused() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "--pcap", "/no/where.pcap", "true"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: cannot record to /no/where.pcap
hint: there is no folder /no

"#]]);
}

#[test]
fn a_capture_cannot_be_a_folder() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "--pcap", "/usr", "true"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: cannot record to /usr
hint: it is a folder: name a file in it

"#]]);
}

#[test]
fn every_variable_is_checked_before_the_program_starts() {
    let library = Library::new();
    for (variable, hint) in [
        ("FERROCE_LINK", "use `shm`, `shm,icrc` or `udp`"),
        ("FERROCE_WIRE", "use `train` or `exact`"),
        ("FERROCE_RECOVERY", "use `go-back-n`, `go-back-0` or `selective-repeat`"),
        ("FERROCE_SOURCE_PORTS", "use `flow` or `4791`"),
        ("FERROCE_RCVBUF_BYTES", "leave it out for the largest that the kernel grants"),
        ("FERROCE_FAULTS", "use loss, reorder[..]"),
        ("FERROCE_CC", "use none, dcqcn[..]"),
        ("FERROCE_LOG", "use a level, error, warn, info, debug or trace[..]"),
    ] {
        let command = library.ferroce().env(variable, "nonsense").args(["run", "echo", "ran"]);
        let expected = format!("error: {variable}: `nonsense` [..]\nhint: {hint}\n");
        command.assert().code(125).stdout_eq("").stderr_eq(expected);
    }
}

#[test]
fn a_misspelt_level_is_told_with_the_one_that_was_meant() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "--log", "wran", "echo", "ran"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: --log: `wran` is neither a level nor a part of the library
hint: you may have meant `warn`

"#]]);
}

#[test]
fn a_flag_counts_before_its_variable() {
    let library = Library::new();
    let command = library.ferroce().env("FERROCE_LINK", "nonsense");
    command.args(["run", "--link", "udp", "echo", "ran"]).assert().success().stdout_eq("ran\n");
}

#[test]
fn a_path_mtu_that_is_none_is_refused() {
    ferroce().args(["run", "--mtu", "1500", "true"]).assert().code(2).stderr_eq(str![[r#"
error: invalid value '1500' for '--mtu <BYTES>': a path MTU is 256, 512, 1024, 2048 or 4096

For more information, try '--help'.

"#]]);
}

#[test]
fn loopback_is_the_device_unless_another_is_named() {
    let command = ferroce().env_remove("FERROCE_DEV").env_remove("FERROCE_MTU").arg("devices");
    command.assert().success().stderr_eq("").stdout_eq(str![[r#"
ferroce0: lo, link up, MTU 65536, path MTU 4096
    congestion control: bbr to other hosts (by default: networks drop), none
    within this one (nothing is lost)
    recovery: selective-repeat with soft NICs on other hosts (by default: a loss
    costs one packet), go-back-n with others (every NIC knows it) and within
    this one (nothing is lost)
    GID 0: [..]
    GID 1: ::ffff:127.0.0.1

"#]]);
}

#[test]
fn a_device_says_who_has_chosen_how_it_recovers() {
    for (chosen, told) in [
        ("go-back-0", "recovery: go-back-0 (FERROCE_RECOVERY says so)"),
        (
            "selective-repeat",
            "recovery: selective-repeat where both ends know it, else go-back-n\n    (FERROCE_RECOVERY says so)",
        ),
    ] {
        let command = ferroce().env_remove("FERROCE_DEV").env("FERROCE_RECOVERY", chosen);
        let assert = command.arg("devices").assert().success();
        let said = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn a_device_can_be_one_address_of_an_interface() {
    let named = "lo/127.0.0.1,lo/127.0.0.2";
    let by_variable = ferroce().env("FERROCE_DEV", named).arg("devices");
    let by_flag = ferroce().env("FERROCE_DEV", "nowhere").args(["devices", "--dev", named]);
    for command in [by_variable, by_flag] {
        let command = command.env("FERROCE_MTU", "1024").assert().success().stderr_eq("");
        command.stdout_eq(str![[r#"
ferroce0: lo, link up, MTU 65536, path MTU 1024
    congestion control: bbr to other hosts (by default: networks drop), none
    within this one (nothing is lost)
    recovery: selective-repeat with soft NICs on other hosts (by default: a loss
    costs one packet), go-back-n with others (every NIC knows it) and within
    this one (nothing is lost)
    GID 0: fe80::fe:7fff:fe00:1 (the interface has no such address)
    GID 1: ::ffff:127.0.0.1
ferroce1: lo, link up, MTU 65536, path MTU 1024
    congestion control: bbr to other hosts (by default: networks drop), none
    within this one (nothing is lost)
    recovery: selective-repeat with soft NICs on other hosts (by default: a loss
    costs one packet), go-back-n with others (every NIC knows it) and within
    this one (nothing is lost)
    GID 0: fe80::fe:7fff:fe00:2 (the interface has no such address)
    GID 1: ::ffff:127.0.0.2

"#]]);
    }
}

#[test]
fn a_wrong_device_in_the_environment_is_named_before_the_program_starts() {
    let library = Library::new();
    let command = library.ferroce().env("FERROCE_DEV", "lo/10.1.2.3").args(["run", "echo", "ran"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: FERROCE_DEV: interface `lo` does not have the address `10.1.2.3`
hint: it has 127.0.0.1[..]

"#]]);
}

#[test]
fn a_fault_that_is_none_is_refused() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "--faults", "loss=2", "echo", "ran"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: --faults: `loss=2` is not a probability
hint: use loss, reorder, duplicate, corrupt and ecn, each between 0 and 1, and seed, as in loss=0.01,seed=7; or aim: drop:nth=3

"#]]);
}

#[test]
fn a_controller_that_is_none_is_refused() {
    let library = Library::new();
    let command = library.ferroce().args(["run", "--cc", "cubic", "echo", "ran"]);
    command.assert().code(125).stdout_eq("").stderr_eq(str![[r#"
error: --cc: `cubic` is not a controller
hint: use none, dcqcn, dctcp, timely, swift, bbr, or fixed with its rate, as in fixed,rate_mbps=1000

"#]]);
}

#[test]
fn a_network_and_an_experiment_are_told_apart() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/lab");
    let lab = |words: &[&str]| ferroce().arg("lab").args(words).current_dir(folder).assert();
    lab(&["up", "1-two-hosts.toml"]).code(125).stdout_eq("").stderr_eq(str![[r#"
error: 1-two-hosts.toml: line 7: unknown key `draws`
hint: this is an experiment, which `ferroce lab exec` carries out

"#]]);
    lab(&["exec", "two-hosts.toml"]).code(125).stdout_eq("").stderr_eq(str![[r#"
error: two-hosts.toml: line 8: unknown key `end_ms`
hint: this is a network, of which `ferroce lab up` makes a lab

"#]]);
}
