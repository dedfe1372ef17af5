//! `ferroce export`: counters for Prometheus.

use core::net::SocketAddr;
use std::thread;
use std::time::Instant;

use clap::Args;
use ops::watch::{Settings, Watch, metrics, sample_metrics};
use telemetry::{Endpoint, EndpointError, Format, MetricKind, Metrics, Reach};

use crate::failure::Failure;
use crate::output::print;
use crate::sources::Sources;

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    sources: Sources,

    /// Print the metrics once, and end
    #[arg(long)]
    once: bool,

    /// Where to listen: `/metrics` is there. Port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9879")]
    listen: SocketAddr,

    /// Listen on an address that other hosts reach
    #[arg(long)]
    beyond_loopback: bool,

    /// The most series of a scrape; those beyond are left out, and counted
    #[arg(long, value_name = "NUMBER", default_value_t = 200_000)]
    series_max: usize,

    /// Print OpenMetrics in place of Prometheus' text
    #[arg(long, requires = "once")]
    openmetrics: bool,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  ferroce export --once                     # what Prometheus gets of this host
  ferroce export                            # http://127.0.0.1:9879/metrics
  ferroce export --from snapshots/ --once   # of what was saved of others
  ferroce export --from out/ --once         # of what `ferroce sim -o` wrote

Names and labels are those of rdma_exporter and node_exporter; see
docs/book/watch.md.";

pub(crate) fn run(arguments: &Export) -> Result<(), Failure> {
    let mut exporter = Exporter::new(arguments);
    if arguments.once {
        let metrics = exporter.scrape()?;
        let format = if arguments.openmetrics { Format::OpenMetrics } else { Format::Prometheus };
        return print(&metrics.to_text(format));
    }
    // What is wrong with a folder is told now, and not at the first scrape.
    exporter.scrape()?;
    let reach = if arguments.beyond_loopback { Reach::Anywhere } else { Reach::Loopback };
    let gather = move || exporter.scrape().unwrap_or_else(|failure| exporter.failed(&failure));
    let endpoint = Endpoint::serve(arguments.listen, reach, gather).map_err(|error| {
        let hint = match &error {
            EndpointError::BeyondLoopback(_) => {
                "say --beyond-loopback if they are to; there is no password"
            }
            EndpointError::Bind(..) => "choose another with --listen, such as 127.0.0.1:9880",
        };
        Failure::new(error.to_string()).hint(hint)
    })?;
    print(&format!("metrics are at http://{}/metrics\n", endpoint.address()))?;
    loop {
        thread::park();
    }
}

/// What stays from scrape to scrape: detectors, and errors.
struct Exporter {
    sources: Sources,
    series_max: usize,
    begin: Instant,
    watch: Watch,
    errors: u64,
}

impl Exporter {
    fn new(arguments: &Export) -> Self {
        let sources = arguments.sources.clone();
        let watch = Watch::new(Settings::default());
        Self { sources, series_max: arguments.series_max, begin: Instant::now(), watch, errors: 0 }
    }

    fn scrape(&mut self) -> Result<Metrics, Failure> {
        let raw = self.sources.gather()?;
        let sample = raw.sample();
        self.watch.look(self.begin.elapsed(), &sample);
        let mut all = Metrics::bounded(self.series_max);
        // First, so that they are there whatever the bound.
        self.about(&mut all, true);
        sample_metrics(&sample, self.watch.open(), &mut all);
        metrics(&raw, &mut all);
        Ok(all)
    }

    /// A scrape that gave nothing is told as one, so that an alert can ask for it.
    fn failed(&mut self, failure: &Failure) -> Metrics {
        self.errors += 1;
        eprintln!("{failure}");
        let mut all = Metrics::bounded(self.series_max);
        self.about(&mut all, false);
        all
    }

    fn about(&self, all: &mut Metrics, success: bool) {
        let help = "Scrapes whose counters could not be read.";
        all.add("rdma_scrape_errors_total", MetricKind::Counter, help, &[], self.errors);
        let help = "Whether the counters of this scrape could be read.";
        let labels = [("collector", "ferroce")];
        all.add(
            "rdma_scrape_collector_success",
            MetricKind::Gauge,
            help,
            &labels,
            u64::from(success),
        );
        let help = "Which Ferroce this is.";
        let labels = [("version", env!("CARGO_PKG_VERSION"))];
        all.add("ferroce_build_info", MetricKind::Gauge, help, &labels, 1);
    }
}
