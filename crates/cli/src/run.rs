//! `ferroce run`: sets the environment and becomes the program.
//!
//! Nothing stays between the caller and the program: `exec` keeps the process, so the exit status,
//! the signals and the terminal are the program's own. `--stats` is the exception: somebody has to be there when
//! the program has ended ([`stats`]). So is a program for another processor.

mod stats;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::IntoRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use rdma::Mtu;
use softnic::{DeviceInfo, Options, lab, sysfs};

use crate::args::Run;
use crate::devices;
use crate::failure::Failure;
use crate::library::{self, LIBRARIES};
use crate::output::{cannot_write, tell};
use crate::program;
use stats::Target;

pub(crate) fn run(arguments: &Run) -> Result<(), Failure> {
    let library = library::directory()?;
    let devices = devices(arguments)?;
    check_mtu(arguments, &devices)?;
    let mut variables = variables(arguments)?;
    let stats = arguments.stats.as_deref().map(Target::new).transpose()?;
    check_options(&variables)?;
    let [name, rest @ ..] = arguments.program.as_slice() else {
        return Err(Failure::new("no program was named"));
    };
    let path = program::find(name)?;
    program::check_preload(&path)?;
    match sysfs::lay_out(&devices) {
        Ok(folder) => variables.push((sysfs::VARIABLE, folder.into())),
        // Many programs need only the library, and their own errors say more.
        Err(error) => {
            tell(&format!("warning: the devices have no files in /sys and /dev: {error}"));
        }
    }
    // For people alone: a program that reads our stderr does not need it.
    if io::stderr().is_terminal() {
        for shortcomings in devices.iter().filter_map(DeviceInfo::shortcomings) {
            tell(&format!("note: {shortcomings}"));
        }
    }
    let preloaded = LIBRARIES.map(|name| library.join(name).into_os_string());
    let preloaded = preloaded_before(preloaded.join(OsStr::new(":")), program::sanitizer(&path));

    let mut command = Command::new(&path);
    command
        .arg0(name)
        .args(rest)
        .envs(variables)
        .env("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", library.as_os_str()))
        .env("LD_PRELOAD", preloaded);
    if arguments.pcap.as_deref().is_some_and(goes_to_stdout) {
        let stderr = rustix::io::dup(io::stderr())
            .map_err(|error| Failure::new(format!("cannot share stderr: {error}")))?;
        command.stdout(stderr);
    }
    if let Some(target) = stats {
        return stats::run(command, &arguments.program, &target);
    }
    if program::is_foreign(&path) {
        return stats::accompany(command);
    }
    Err(program::cannot_run(&path, &command.exec()))
}

/// `first`, then what the variable already holds.
fn before(variable: &str, first: &OsStr) -> OsString {
    let mut value = first.to_owned();
    if let Some(held) = env::var_os(variable).filter(|held| !held.is_empty()) {
        value.push(":");
        value.push(held);
    }
    value
}

/// What is preloaded: what the user preloads comes before ours, so that it may replace what we have; and the runtime of
/// a sanitized program, which must be first.
fn preloaded_before(ours: OsString, sanitizer: Option<OsString>) -> OsString {
    let held = env::var_os("LD_PRELOAD").filter(|held| !held.is_empty());
    let has = |name: &OsStr| {
        held.as_ref().is_some_and(|held| held.to_string_lossy().contains(&*name.to_string_lossy()))
    };
    let sanitizer = sanitizer.filter(|name| !has(name));
    let all: Vec<OsString> = [sanitizer, held.clone(), Some(ours)].into_iter().flatten().collect();
    all.join(OsStr::new(":"))
}

/// The variables that the flags set. A variable without its flag keeps its value.
fn variables(arguments: &Run) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut variables = Vec::new();
    if let Some(site) = &arguments.site {
        variables.push((lab::LAB, site.socket.clone().into()));
        variables.push((lab::HOST, site.host.clone().into()));
    }
    if !arguments.dev.is_empty() {
        variables.push(("FERROCE_DEV", arguments.dev.join(",").into()));
    }
    if let Some(mtu) = arguments.mtu {
        variables.push(("FERROCE_MTU", mtu.to_string().into()));
    }
    if let Some(faults) = &arguments.faults {
        variables.push(("FERROCE_FAULTS", faults.into()));
    }
    if let Some(controller) = &arguments.cc {
        variables.push(("FERROCE_CC", controller.into()));
    }
    match arguments.pcap.as_deref().map(record).transpose()? {
        Some(Record::File(spec)) => variables.push(("FERROCE_PCAP", spec)),
        Some(Record::Stdout(bounds)) => {
            let mut spec = shared_stdout()?;
            spec.push(bounds);
            variables.push(("FERROCE_PCAP", spec));
        }
        None => {}
    }
    if let Some(link) = arguments.link {
        variables.push(("FERROCE_LINK", link.name().into()));
    }
    if let Some(wire) = arguments.wire {
        variables.push(("FERROCE_WIRE", wire.name().into()));
    }
    if let Some(log) = &arguments.log {
        variables.push(("FERROCE_LOG", log.into()));
    }
    Ok(variables)
}

/// Reports mistakes in the names of devices, instead of starting the program.
fn devices(arguments: &Run) -> Result<Vec<DeviceInfo>, Failure> {
    let Some(site) = &arguments.site else { return devices::of(&arguments.dev) };
    let mtu = arguments.mtu.map(|mtu| mtu.to_string()).or_else(|| env::var("FERROCE_MTU").ok());
    let device = DeviceInfo::in_lab(site, mtu.as_deref());
    device.map(|device| vec![device]).map_err(|error| Failure::from_message(&error))
}

fn check_mtu(arguments: &Run, devices: &[DeviceInfo]) -> Result<(), Failure> {
    let Some(mtu) = arguments.mtu else { return Ok(()) };
    match devices.iter().find(|device| Mtu::fitting(device.mtu).bytes() < mtu) {
        None => Ok(()),
        Some(device) => {
            let DeviceInfo { interface, mtu: interface_mtu, .. } = device;
            let largest = Mtu::fitting(*interface_mtu).bytes();
            let message = format!("a path MTU of {mtu} does not fit {interface}");
            let hint = format!("its own MTU is {interface_mtu}, which leaves room for {largest}");
            Err(Failure::new(message).hint(hint))
        }
    }
}

/// Whether a device will open with the settings of the flags, and else of the environment, and the library log as they say.
fn check_options(flags: &[(&str, OsString)]) -> Result<(), Failure> {
    let value = |name: &str| match flags.iter().find(|(flag, _)| *flag == name) {
        Some((_, value)) => value.to_str().map(str::to_owned),
        None => env::var(name).ok(),
    };
    let options = Options::from_variables(value).map_err(|error| error.to_string());
    let log = softnic::variables::check_log(&value("FERROCE_LOG").unwrap_or_default());
    options.and(log.map_err(|error| error.to_string())).map_err(|text| {
        let typed = flags.iter().find_map(|(name, _)| as_typed(&text, name));
        Failure::from_message(&typed.unwrap_or(text))
    })
}

/// What is wrong with a variable, if that is its name, as something about its flag.
fn as_typed(text: &str, variable: &str) -> Option<String> {
    let rest = text.strip_prefix(variable).filter(|rest| rest.starts_with(':'))?;
    let flag = variable.strip_prefix("FERROCE_")?.to_lowercase();
    Some(format!("--{flag}{rest}"))
}

/// Where packets are recorded.
enum Record {
    /// What the variable is to be.
    File(OsString),
    /// On our stdout, with bounds behind: the program's goes elsewhere.
    Stdout(String),
}

fn goes_to_stdout(spec: &OsStr) -> bool {
    let bytes = spec.as_encoded_bytes();
    bytes == b"-" || bytes.starts_with(b"-,")
}

/// The capture's path, absolute because the program may change its working directory, and its bounds.
fn record(spec: &OsStr) -> Result<Record, Failure> {
    let text = spec.to_string_lossy();
    let bounds = text.find(',').map_or("", |at| &text[at..]);
    if goes_to_stdout(spec) {
        return Ok(Record::Stdout(bounds.to_owned()));
    }
    let file = match text.find(',') {
        Some(at) => PathBuf::from(&text[..at]),
        None => PathBuf::from(spec),
    };
    let path = capture(&file)?;
    emptied(&path).map_err(|error| cannot_write(&path, error))?;
    let mut path = path.into_os_string();
    path.push(bounds);
    path.push(",append");
    Ok(Record::File(path))
}

/// Takes out what is in the file of an earlier record, so that those of all programs that follow are behind each other.
/// One that somebody is writing to is left alone, and so is a FIFO.
fn emptied(path: &Path) -> io::Result<()> {
    if !path.is_file() {
        return Ok(());
    }
    let file = File::options().write(true).open(path)?;
    if file.try_lock().is_ok() { file.set_len(0) } else { Ok(()) }
}

fn capture(file: &Path) -> Result<PathBuf, Failure> {
    let path = absolute(file)
        .map_err(|error| Failure::new(format!("cannot record to {}: {error}", file.display())))?;
    if path.is_dir() {
        let message = format!("cannot record to {}", path.display());
        return Err(Failure::new(message).hint("it is a folder: name a file in it"));
    }
    match path.parent() {
        Some(folder) if !folder.is_dir() => {
            let message = format!("cannot record to {}", path.display());
            Err(Failure::new(message).hint(format!("there is no folder {}", folder.display())))
        }
        _ => Ok(path),
    }
}

/// A descriptor of our stdout that the program has as well, under its name.
fn shared_stdout() -> Result<OsString, Failure> {
    if io::stdout().is_terminal() {
        let failure = Failure::new("packets are no text, and stdout is a terminal");
        return Err(failure.hint("name a reader: `ferroce run --pcap - -- PROGRAM | tshark -r -`"));
    }
    let shared = rustix::io::dup(io::stdout())
        .map_err(|error| Failure::new(format!("cannot record to stdout: {error}")))?;
    // It is for the program, so it is not closed here.
    Ok(format!("/dev/fd/{}", shared.into_raw_fd()).into())
}
