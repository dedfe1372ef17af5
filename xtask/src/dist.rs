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
    build_library()?;
    build_paths()?;
    build_binary()
}

/// Builds the verbs library, and that of connection management, which needs it.
pub(crate) fn build_library() -> Result<()> {
    run_command(cargo().args(["build", "--release", "--package", "ferroce-ibverbs"]))?;
    let library = library();
    make_parent(&library)?;
    link(&library)?;
    replace_link(SONAME, &library.with_file_name("libibverbs.so"))?;
    println!("{}", library.display());
    link_cm(&library)
}

/// Assembles the library of connection management, and links it with the other.
fn link_cm(verbs: &Path) -> Result<()> {
    let library = cm_library();
    let folder = root().join("crates/ibverbs/rdmacm");
    let fresh = library.with_extension("new");
    run_command(
        Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-shared", "-nostdlib", "-o"])
            .arg(&fresh)
            .arg(format!("-Wl,-soname,{CM_SONAME}"))
            .arg(format!("-Wl,--version-script={}", folder.join("rdmacm.map").display()))
            .args(["-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,relro"])
            .arg(folder.join("forward.S"))
            .arg(verbs),
    )?;
    fs::rename(&fresh, &library).with_context(|| format!("cannot write {}", library.display()))?;
    replace_link(CM_SONAME, &library.with_file_name("librdmacm.so"))?;
    println!("{}", library.display());
    Ok(())
}

/// Links the static library into a shared one whose symbols have their versions.
fn link(library: &Path) -> Result<()> {
    let map = root().join("crates/ibverbs/verbs.map");
    // A running program may have the library mapped: it is replaced, not overwritten.
    let fresh = library.with_extension("new");
    run_command(
        Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .arg("-shared")
            .arg("-o")
            .arg(&fresh)
            .arg(format!("-Wl,-soname,{SONAME}"))
            .arg(format!("-Wl,--version-script={}", map.display()))
            .args(["-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,relro"])
            // Threads run in it and signal handlers point into it: it must stay mapped after dlclose.
            .arg("-Wl,-z,nodelete")
            .arg("-Wl,--whole-archive")
            .arg(target_dir().join("release/libibverbs.a"))
            .arg("-Wl,--no-whole-archive")
            .arg(root().join("crates/ibverbs/providers/private.S"))
            .args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"]),
    )?;
    fs::rename(&fresh, library).with_context(|| format!("cannot write {}", library.display()))
}

fn build_paths() -> Result<()> {
    let library = library().with_file_name(PATHS);
    let fresh = library.with_extension("new");
    run_command(
        Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
            // The compiler must not assume what functions of these names do.
            .args(["-fno-builtin", "-U_FORTIFY_SOURCE"])
            .args(["-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,relro"])
            .arg(format!("-Wl,-soname,{PATHS}"))
            .arg("-o")
            .arg(&fresh)
            .args(PATHS_SOURCES.map(|source| root().join("crates/ibverbs/preload").join(source)))
            .args(["-lpthread", "-ldl"]),
    )?;
    fs::rename(&fresh, &library).with_context(|| format!("cannot write {}", library.display()))?;
    println!("{}", library.display());
    Ok(())
}

fn build_binary() -> Result<()> {
    run_command(cargo().args(["build", "--release", "--package", "ferroce-cli"]))?;
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
