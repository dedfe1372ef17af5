//! `cargo xtask dist`: builds what users run and lays it out under `target/dist`.
//!
//! ```text
//! dist/bin/ferroce
//! dist/lib/ferroce/libibverbs.so.1      what programs are linked to
//! dist/lib/ferroce/libibverbs.so        what a linker or dlopen finds: a link to it
//! dist/lib/ferroce/librdmacm.so.1       its names alone: what they do is in libibverbs.so.1
//! dist/lib/ferroce/librdmacm.so         a link to it
//! dist/lib/ferroce/libferroce-paths.so  leads programs to the files of the devices, and to the libraries
//! dist/share/man/man1/ferroce*.1        man pages
//! dist/share/...                        completions for bash, zsh and fish
//! ```
//!
//! The library is a Rust static library, linked once more with a version script, and with the names
//! that are in several version nodes: rustc's own script would remove the nodes, which `dlvsym` and
//! the loader look for.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{cargo, dist_dir, root, run as run_command, target_dir};

/// The library's file name, which is also its soname.
const SONAME: &str = "libibverbs.so.1";
/// The library of connection management: jumps into the other.
const CM_SONAME: &str = "librdmacm.so.1";
/// The library that is only ever preloaded, in C: `open` takes arguments as only C can declare.
const PATHS: &str = "libferroce-paths.so";
const PATHS_SOURCES: [&str; 3] = ["paths.c", "dlopen.S", "sockets.c"];

/// Where the library is laid out.
pub(crate) fn library() -> PathBuf {
    dist_dir().join("lib/ferroce").join(SONAME)
}

/// Where the library of connection management is laid out.
pub(crate) fn cm_library() -> PathBuf {
    library().with_file_name(CM_SONAME)
}

/// Builds `dist/bin/ferroce` and the libraries of `dist/lib/ferroce`.
pub(crate) fn run() -> Result<()> {
    // At once, since each is linked by one processor for minutes. What they share has the same features in both.
    let packages = ["--package", "ferroce-ibverbs", "--package", "ferroce-cli"];
    run_command(cargo().args(["build", "--release"]).args(packages))?;
    Libraries::ours().link()?;
    Libraries::ours().build_paths()?;
    lay_out_binary()
}

/// What the libraries are linked by, from what, and where they are put.
pub(crate) struct Libraries {
    pub(crate) compiler: OsString,
    /// The static library that cargo has built.
    pub(crate) archive: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Libraries {
    /// Those of this machine.
    fn ours() -> Self {
        Self {
            compiler: env::var_os("CC").unwrap_or_else(|| "cc".into()),
            archive: target_dir().join("release/libibverbs.a"),
            folder: dist_dir().join("lib/ferroce"),
        }
    }

    fn compiler(&self) -> Command {
        Command::new(&self.compiler)
    }

    /// Links the verbs library, and that of connection management, which needs it.
    pub(crate) fn link(&self) -> Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        self.link_verbs()?;
        replace_link(SONAME, &self.folder.join("libibverbs.so"))?;
        self.link_cm()?;
        replace_link(CM_SONAME, &self.folder.join("librdmacm.so"))
    }

    /// Links the static library into a shared one whose symbols have their versions.
    fn link_verbs(&self) -> Result<()> {
        let map = root().join("crates/ibverbs/verbs.map");
        let mut command = self.compiler();
        command
            .arg("-shared")
            .arg(format!("-Wl,-soname,{SONAME}"))
            .arg(format!("-Wl,--version-script={}", map.display()))
            .args(["-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,relro"])
            // Threads run in it and signal handlers point into it: it must stay mapped after dlclose.
            .arg("-Wl,-z,nodelete")
            .arg("-Wl,--whole-archive")
            .arg(&self.archive)
            .arg("-Wl,--no-whole-archive")
            .arg(root().join("crates/ibverbs/providers/private.S"))
            .arg(root().join("crates/ibverbs/oldest.S"))
            .args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"]);
        self.write(SONAME, &mut command)
    }

    /// Assembles the library of connection management, and links it with the other.
    fn link_cm(&self) -> Result<()> {
        let folder = root().join("crates/ibverbs/rdmacm");
        let mut command = self.compiler();
        command
            .args(["-shared", "-nostdlib"])
            .arg(format!("-Wl,-soname,{CM_SONAME}"))
            .arg(format!("-Wl,--version-script={}", folder.join("rdmacm.map").display()))
            .args(["-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,relro"])
            .arg(folder.join("forward.S"))
            .arg(self.folder.join(SONAME));
        self.write(CM_SONAME, &mut command)
    }

    /// Builds the library that leads programs to the devices' files.
    pub(crate) fn build_paths(&self) -> Result<()> {
        let mut command = self.compiler();
        command
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
            // The compiler must not assume what functions of these names do.
            .args(["-fno-builtin", "-U_FORTIFY_SOURCE"])
            .args(["-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,relro"])
            .arg(format!("-Wl,-soname,{PATHS}"))
            .args(PATHS_SOURCES.map(|source| root().join("crates/ibverbs/preload").join(source)))
            .args(["-lpthread", "-ldl"]);
        self.write(PATHS, &mut command)
    }

    /// Has the command write one of them. A running program may have it mapped: it is replaced, not overwritten.
    fn write(&self, name: &str, command: &mut Command) -> Result<()> {
        let library = self.folder.join(name);
        let fresh = library.with_extension("new");
        run_command(command.arg("-o").arg(&fresh))?;
        fs::rename(&fresh, &library)
            .with_context(|| format!("cannot write {}", library.display()))?;
        println!("{}", library.display());
        Ok(())
    }
}

/// Builds the verbs library, and that of connection management.
pub(crate) fn build_library() -> Result<()> {
    run_command(cargo().args(["build", "--release", "--package", "ferroce-ibverbs"]))?;
    Libraries::ours().link()
}

fn lay_out_binary() -> Result<()> {
    let binary = dist_dir().join("bin/ferroce");
    make_parent(&binary)?;
    let fresh = binary.with_extension("new");
    fs::copy(target_dir().join("release/ferroce"), &fresh)
        .and_then(|_| fs::rename(&fresh, &binary))
        .with_context(|| format!("cannot write {}", binary.display()))?;
    println!("{}", binary.display());
    write_manual(&binary)
}

/// Where each shell looks for the completions of commands, below the prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/ferroce"),
    ("zsh", "share/zsh/site-functions/_ferroce"),
    ("fish", "share/fish/vendor_completions.d/ferroce.fish"),
];

/// Has the command describe itself to `man` and to shells.
fn write_manual(binary: &Path) -> Result<()> {
    run_command(Command::new(binary).arg("man").arg(dist_dir().join("share/man/man1")))?;
    for (shell, place) in COMPLETIONS {
        let path = dist_dir().join(place);
        make_parent(&path)?;
        let output = Command::new(binary).args(["completions", shell]).output();
        let output = output.with_context(|| format!("cannot run {}", binary.display()))?;
        anyhow::ensure!(output.status.success(), "`ferroce completions {shell}` failed");
        fs::write(&path, output.stdout)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))
}

fn replace_link(target: &str, link: &Path) -> Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", link.display()));
        }
        _ => {}
    }
    symlink(target, link).with_context(|| format!("cannot make {}", link.display()))
}
