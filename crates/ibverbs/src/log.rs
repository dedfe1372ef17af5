//! `FERROCE_LOG` says what is logged to standard error, as `FERROCE_LOG=debug` or
//! `FERROCE_LOG=softnic=trace`. Without it a terminal is told what went wrong (`warn`), a line each, and a file or
//! a pipe nothing: a program that reads what another says does not expect our lines.

use core::fmt;
use std::io::{self, IsTerminal};
use std::sync::Once;

use softnic::{sysfs, variables};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

const VARIABLE: &str = "FERROCE_LOG";

/// What lines for people begin with.
const SPEAKER: &str = "libibverbs (ferroce): ";

thread_local! {
    /// Destroyed at the end of the thread, as is what lines are formatted with.
    static ALIVE: Alive = const { Alive };
}

struct Alive;

impl Drop for Alive {
    /// Only a value with a destructor can be found destroyed.
    fn drop(&mut self) {}
}

/// Whether this thread can still write lines. `exit` destroys its thread's own values first, and only
/// then do NICs send their final acknowledgements.
fn can_write() -> bool {
    ALIVE.try_with(|_| ()).is_ok()
}

/// Starts logging if the user wants it. A program's own subscriber stays.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Whoever has closed standard error is told nothing, and that is no reason to panic.
        let lines = || tracing_subscriber::fmt().with_writer(io::stderr).log_internal_errors(false);
        match std::env::var_os(VARIABLE) {
            Some(value) if value.is_empty() => {}
            Some(value) => match filter(&value.to_string_lossy()) {
                Ok(filter) => set(lines().with_env_filter(filter).finish()),
                Err(error) => complain(&format_args!("{error}; nothing is logged now")),
            },
            None if io::stderr().is_terminal() => {
                let warnings = lines().with_env_filter(EnvFilter::new("warn"));
                set(warnings.event_format(Complaint).finish());
            }
            None => {}
        }
        // Below `ferroce run`, which names the folder, it has been said.
        if std::env::var_os(sysfs::VARIABLE).is_none() {
            variables::doubts().for_each(|doubt| tracing::warn!("{doubt}"));
        }
    });
}

fn set(lines: impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync) {
    let lines = lines.with(dynamic_filter_fn(|_, _| can_write()));
    let _already_set = tracing::subscriber::set_global_default(lines);
}

/// A line for whoever sits before the terminal: who speaks, and what is wrong.
struct Complaint;

impl<S, N> FormatEvent<S, N> for Complaint
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        line.write_str(SPEAKER)?;
        context.field_format().format_fields(line.by_ref(), event)?;
        writeln!(line)
    }
}

/// The variable's value as a filter, or what is wrong with it.
fn filter(value: &str) -> Result<EnvFilter, String> {
    variables::check_log(value).map_err(|error| error.to_string())?;
    EnvFilter::try_new(value).map_err(|error| {
        format!(
            "{VARIABLE}: `{value}` is not a filter: {error}\nhint: use a level, as in softnic=debug"
        )
    })
}

/// Tells the user why there is no device, or no longer one: the program itself will only say that there is none. Without the
/// standard library's lock, which a forked child may find held.
pub(crate) fn complain(error: &dyn fmt::Display) {
    let line = format!("{SPEAKER}{error}\n");
    // SAFETY: the bytes are live, and as many as is said.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::Command;

    /// Closes NICs at the end of a process.
    extern "C" fn at_exit() {
        tracing::info!("the end");
        let _ = writeln!(io::stderr(), "went on");
    }

    /// Runs in a process of its own, which then ends.
    #[test]
    fn ends() {
        if std::env::var_os(VARIABLE).is_some() {
            start();
            tracing::info!("the beginning");
            // SAFETY: a function without arguments.
            unsafe { libc::atexit(at_exit) };
            std::process::exit(0);
        }
    }

    #[test]
    fn a_filter_that_is_none_is_named_with_its_variable() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "log::tests::ends", "--nocapture"]).env(VARIABLE, "softnic=loud");
        let ended = command.output().unwrap();
        let lines = String::from_utf8_lossy(&ended.stderr);
        assert!(
            lines.contains("FERROCE_LOG: ") && lines.contains("\nhint: use a level"),
            "{lines}"
        );
        assert!(lines.contains("went on") && !lines.contains("the beginning"), "{lines}");
    }

    #[test]
    fn a_misspelt_variable_is_told_unless_ferroce_run_has() {
        let said = |sysfs: Option<&str>| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "log::tests::ends", "--nocapture"]).env(VARIABLE, "warn");
            command.env("FERROCE_LNK", "udp").env_remove(sysfs::VARIABLE);
            command.envs(sysfs.map(|folder| (sysfs::VARIABLE, folder)));
            String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
        };
        let doubt = "nothing reads FERROCE_LNK: you may have meant FERROCE_LINK";
        assert_eq!(said(None).matches(doubt).count(), 1, "{}", said(None));
        assert!(!said(Some("/")).contains(doubt));
    }

    #[test]
    fn a_program_that_ends_while_something_is_logged_ends_as_it_would_otherwise() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "log::tests::ends", "--nocapture"]).env(VARIABLE, "info");
        let ended = command.output().unwrap();
        let lines = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{lines}");
        assert!(lines.contains("the beginning") && lines.contains("went on"), "{lines}");
    }

    #[test]
    fn a_program_whose_standard_error_nobody_reads_ends_as_it_would_otherwise() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        for filter in ["info", "softnic=loud"] {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "log::tests::ends", "--nocapture"]).env(VARIABLE, filter);
            let status = command.stderr(writer.try_clone().unwrap()).status().unwrap();
            assert!(status.success(), "{filter}: {status}");
        }
    }
}
