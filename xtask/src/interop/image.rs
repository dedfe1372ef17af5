//! What the guest boots: a kernel of Debian's, never installed, and an initramfs made of programs
//! and libraries of this machine.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace;

const INIT: &str = include_str!("guest-init.sh");
/// A program of the guest's: connections within it.
pub(super) const CMTIME: (&str, &str) = ("cmtime-within", include_str!("guest-cmtime.sh"));
/// Another: the agent of pingmesh on its Soft-RoCE.
pub(super) const PINGMESH: (&str, &str) = ("guest-pingmesh", include_str!("guest-pingmesh.sh"));

/// The package that depends on the newest kernel of the distribution.
const KERNEL: &str = "linux-image-amd64";

/// Those that a kernel has built in, or does not know, are left out.
const MODULES: [&str; 8] = [
    "virtio_pci",
    "virtio_console",
    "virtio_net",
    "crc32_generic",
    "sch_netem",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
];

/// What of busybox the guest uses.
const APPLETS: [&str; 12] = [
    "grep", "insmod", "killall", "mkdir", "mount", "poweroff", "printf", "sed", "sh", "sleep",
    "timeout", "uname",
];

const PROGRAMS: [&str; 20] = [
    "cmtime",
    "ib_atomic_bw",
    "ib_atomic_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_send_bw",
    "ib_write_bw",
    "ibv_rc_pingpong",
    "ibv_srq_pingpong",
    "ibv_uc_pingpong",
    "ibv_ud_pingpong",
    "ip",
    "mckey",
    "rdma",
    "riostream",
    "rping",
    "rstream",
    "tc",
    "ucmatose",
    "udaddy",
];

/// The plugin of libibverbs for Soft-RoCE, and the file that names it.
const PROVIDER_FILE: &str = "/etc/libibverbs.d/rxe.driver";
const PROVIDERS: &str = "/usr/lib/x86_64-linux-gnu/libibverbs";

/// The library that is loaded when a thread is cancelled, as rping's are; no program names it.
const UNWINDER: &str = "/lib/x86_64-linux-gnu/libgcc_s.so.1";

/// A guest that can be booted.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
}

/// Where everything is kept between runs.
pub(super) fn folder() -> PathBuf {
    workspace::target_dir().join("interop")
}

/// Downloads and unpacks the newest kernel, unless it is there.
pub(super) fn fetch() -> Result<()> {
    let (package, version) = kernel_package().or_else(|_| {
        workspace::output(Command::new("apt-get").arg("update"))?;
        kernel_package()
    })?;
    let tree = folder().join(&package);
    if tree.is_dir() { Ok(()) } else { unpack(&package, &version, &tree) }
}

/// Packs the initramfs. `own` are programs of this repository.
pub(super) fn build(own: &[PathBuf]) -> Result<Image> {
    let (package, version) = kernel_package()?;
    let tree = folder().join(&package);
    let kernel = tree.join(format!("boot/vmlinuz-{version}"));
    let root = folder().join("root");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    lay_out(&root, own)?;
    copy_modules(&root, &tree, &version)?;
    let initramfs = folder().join("initramfs.cpio");
    pack(&root, &initramfs)?;
    Ok(Image { kernel, initramfs })
}

/// The newest kernel's package and its version: `linux-image-6.1.0-56-amd64`.
fn kernel_package() -> Result<(String, String)> {
    let depends = workspace::output(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let package = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| package.starts_with("linux-image-"))
        .with_context(|| format!("apt knows no {KERNEL}\n hint: Debian has it"))?;
    let version = package.trim_start_matches("linux-image-");
    Ok((package.to_owned(), version.to_owned()))
}

fn unpack(package: &str, version: &str, tree: &Path) -> Result<()> {
    println!("unpacking {package}");
    let scratch = tempfile::Builder::new().prefix("ferroce-").tempdir()?;
    workspace::output(
        Command::new("apt-get").args(["download", package]).current_dir(scratch.path()),
    )
    .context("hint: apt-get update")?;
    let archive =
        fs::read_dir(scratch.path())?.next().context("apt-get download has left no file")??.path();
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    // Under its name only when it is complete.
    let fresh = tree.with_extension("new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    workspace::run(Command::new("dpkg-deb").arg("-x").args([&archive, &fresh]))?;
    workspace::run(Command::new("depmod").arg("-b").arg(&fresh).arg(version))?;
    fs::rename(&fresh, tree)?;
    Ok(())
}

fn lay_out(root: &Path, own: &[PathBuf]) -> Result<()> {
    for folder in ["bin", "dev", "modules", "proc", "sys", "tmp"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let programs = [CMTIME, PINGMESH].map(|(name, text)| (format!("bin/{name}"), text));
    for (path, text) in programs.into_iter().chain([("init".to_owned(), INIT)]) {
        fs::write(root.join(&path), text)?;
        fs::set_permissions(root.join(&path), fs::Permissions::from_mode(0o755))?;
    }
    copy(Path::new("/bin/busybox"), &root.join("bin/busybox"))?;
    for applet in APPLETS {
        symlink("busybox", root.join("bin").join(applet))?;
    }

    let mut files: Vec<PathBuf> = own.to_vec();
    for program in PROGRAMS {
        files.push(find(program)?);
    }
    let mut libraries = BTreeSet::new();
    for file in &files {
        copy(file, &root.join("bin").join(file.file_name().context("a program has a name")?))?;
        libraries.extend(libraries_of(file)?);
    }
    for entry in fs::read_dir(PROVIDERS).with_context(|| format!("no {PROVIDERS}"))? {
        let path = entry?.path();
        if path.to_string_lossy().contains("/librxe-") {
            libraries.extend(libraries_of(&path)?);
            libraries.insert(path);
        }
    }
    libraries.extend([PROVIDER_FILE, UNWINDER].map(PathBuf::from));
    for library in &libraries {
        copy(library, &root.join(library.strip_prefix("/").unwrap_or(library)))?;
    }
    Ok(())
}

/// Where a program is, on the path of root.
fn find(program: &str) -> Result<PathBuf> {
    let places = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    places
        .iter()
        .map(|place| Path::new(place).join(program))
        .find(|path| path.is_file())
        .with_context(|| format!("{program} is not installed"))
}

/// All libraries that the loader finds for a program, and the loader.
fn libraries_of(file: &Path) -> Result<Vec<PathBuf>> {
    let text = workspace::output(Command::new("ldd").arg(file))?;
    let paths = text.lines().filter_map(|line| {
        let path = line.split_once("=>").map_or(line, |(_, path)| path).trim();
        path.starts_with('/').then(|| path.split_whitespace().next())?
    });
    Ok(paths.map(PathBuf::from).collect())
}

/// Copies the modules into one folder, with a list of their names in the order of loading.
fn copy_modules(root: &Path, tree: &Path, version: &str) -> Result<()> {
    let mut order: Vec<String> = Vec::new();
    for module in MODULES {
        let mut command = Command::new("modprobe");
        command.arg("-d").arg(tree).args(["-S", version, "--show-depends", module]);
        let shown = command.stderr(Stdio::null()).output().context("cannot start modprobe")?;
        for line in String::from_utf8_lossy(&shown.stdout).lines() {
            // `builtin virtio` is no file.
            let Some(path) = line.strip_prefix("insmod ") else { continue };
            let path = Path::new(path.trim());
            let name = path.file_name().context("a module has a name")?.to_string_lossy();
            if !order.iter().any(|known| *known == name) {
                copy(path, &root.join("modules").join(&*name))?;
                order.push(name.into_owned());
            }
        }
    }
    if !order.iter().any(|name| name.starts_with("rdma_rxe.")) {
        bail!("{KERNEL} has no rdma_rxe");
    }
    fs::write(root.join("modules/order"), order.join("\n") + "\n")?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

fn pack(root: &Path, archive: &Path) -> Result<()> {
    let names = workspace::output(Command::new("find").arg(".").current_dir(root))?;
    let mut child = Command::new("cpio")
        .args(["--create", "--format=newc", "--quiet", "--owner=0:0"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(File::create(archive)?)
        .spawn()
        .context("cannot start cpio")?;
    child.stdin.take().context("cpio has no stdin")?.write_all(names.as_bytes())?;
    if !child.wait()?.success() {
        bail!("cpio failed");
    }
    Ok(())
}
