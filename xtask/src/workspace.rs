//! Where things are, and how cargo is called.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ is a folder of the repository")
}

/// Cargo's target directory: `target/`, unless `CARGO_TARGET_DIR` moves it.
pub(crate) fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// What `cargo xtask dist` fills: `bin/ferroce` and `lib/ferroce/libibverbs.so.1`.
pub(crate) fn dist_dir() -> PathBuf {
    target_dir().join("dist")
}

/// Where a program is, if it is in the search path; or the file of that path, if there is one.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A cargo command that runs at the root of the repository.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// `cargo COMMAND` of what `make test` builds: all packages with all features. A choice of them has other features, and is
/// built anew.
pub(crate) fn whole(command: &str) -> Command {
    let mut whole = cargo();
    whole.args([command, "--workspace", "--all-features", "--profile", "ci"]);
    whole
}

/// How the tests of NICs that take long are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Build {
    /// As `make test` builds all else, with assertions.
    Ci,
    /// As users have it: what they measure counts.
    Release,
}

impl Build {
    /// A `cargo test` of the NICs.
    pub(crate) fn nics(self) -> Command {
        let mut test = match self {
            Self::Ci => whole("test"),
            Self::Release => {
                let mut cargo = cargo();
                cargo.args(["test", "--release", "--package", "ferroce-softnic"]);
                cargo
            }
        };
        test.args(["--quiet", "--test", "nic"]);
        test
    }
}

/// Runs a command to its end; a failure names the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command to its end and returns what it wrote to stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}\n{}", shown(command), output.status, stderr.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} is not UTF-8", shown(command)))
}

/// The command as one would type it (without quoting).
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}
