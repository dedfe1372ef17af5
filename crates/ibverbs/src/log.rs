//! `FERROCE_LOG` says what is logged to standard error, as `FERROCE_LOG=debug` or
//! `FERROCE_LOG=transport=trace`. Without it nothing is.

use std::sync::Once;

use tracing_subscriber::EnvFilter;

const VARIABLE: &str = "FERROCE_LOG";

/// Starts logging if the user wants it. A program's own subscriber stays.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty()) {
            let filter = EnvFilter::from_env(VARIABLE);
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(std::io::stderr)
                .finish();
            let _already_set = tracing::subscriber::set_global_default(subscriber);
        }
    });
}

/// Tells the user why there is no device: the program itself will only say that there is none.
pub(crate) fn complain(error: &dyn core::fmt::Display) {
    eprintln!("libibverbs (ferroce): {error}");
}
